#include "cli/flags/list_models_flags.h"

namespace bmoe::cli {

void ListModelsFlags::add_to(CLI::App &app, CommandLine &out) {
    app_ = &app;
    app.add_option_function<std::string>(
           "--list-models",
           [&](const std::string &folder) {
               out.list_models = folder;
               app.get_option("--model")->required(false);
           },
           "List the GGUF models below this folder, and whether they fit")
        ->group("Model");
}

void ListModelsFlags::apply(CommandLine &out) {
    const CLI::Option *list = app_->get_option("--list-models");
    if (list->count() == 0 || out.mode == Mode::kPerplexity) {
        return;
    }
    out.mode = Mode::kListModels;
    if (app_->count("--ram") > 0) {
        throw CLI::ValidationError("--list-models compares with the memory that is free: leave --ram out");
    }
    for (const CLI::Option *option : app_->get_options()) {
        if (option->count() > 0 && option != list) {
            throw CLI::ValidationError(option->get_name() + " has no meaning with --list-models: it runs nothing");
        }
    }
}

}  // namespace bmoe::cli
