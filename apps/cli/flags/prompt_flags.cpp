#include "cli/flags/prompt_flags.h"

#include <unistd.h>

#include <iostream>

#include "cli/flags/checks.h"
#include "cli/prompt_file.h"

namespace bmoe::cli {

void PromptFlags::add_to(CLI::App &app, CommandLine &out) {
    app_ = &app;
    CLI::Option *prompt = app.add_option("-p,--prompt", out.prompt,
                                         "Text to continue, or the user's message with --chat; without a prompt, on a "
                                         "terminal: a conversation")
                              ->group("Prompt");
    app.add_option("-f,--file", out.prompt_file,
                   "The prompt is all of this file, which is UTF-8 text; -: standard input")
        ->excludes(prompt)
        ->check(file_name())
        ->group("Prompt");
    CLI::Option *chat =
        app.add_flag("--chat", out.chat, "Render the prompt with the model's own chat template")->group("Prompt");
    app.add_flag("--raw", raw_, "Continue the prompt as it is, which is the default")->excludes(chat)->group("Prompt");
    app.add_flag("--no-think", out.no_think, "In a chat or a session: ask the model to answer without reasoning")
        ->group("Prompt");
}

void PromptFlags::apply(CommandLine &out) {
    if (out.mode == Mode::kListModels) {
        return;
    }
    if (out.mode == Mode::kSession) {
        for (const char *flag : {"--file", "--raw"}) {
            if (app_->count(flag) > 0) {
                throw CLI::ValidationError(std::string(flag) +
                                           " has no meaning with --session: requests say what to generate");
            }
        }
        return;
    }
    if (app_->count("--prompt") + app_->count("--file") > 0) {
        take_prompt(out);
    } else if (out.mode == Mode::kPerplexity) {
        return;  // it says itself what is missing
    } else if (raw_) {
        throw CLI::ValidationError("--raw needs a prompt: give one with -p TEXT or -f FILE");
    } else if (isatty(STDIN_FILENO) == 0) {
        throw CLI::ValidationError(
            "there is no prompt: give one with -p TEXT or -f FILE (-f - for standard input); a conversation needs a "
            "terminal as standard input");
    } else {
        out.mode = Mode::kChat;
        out.chat = true;
    }
    if (out.no_think && !out.chat) {
        std::cerr << "note: without --chat the prompt is continued as it is, and --no-think has no effect\n";
    }
}

void PromptFlags::take_prompt(CommandLine &out) const {
    if (app_->count("--file") > 0) {
        out.prompt = read_prompt_file(out.prompt_file);
        return;
    }
    if (out.prompt.empty()) {
        throw CLI::ValidationError("the prompt is empty: give some text with -p");
    }
    check_prompt(out.prompt, "-p");
}

}  // namespace bmoe::cli
