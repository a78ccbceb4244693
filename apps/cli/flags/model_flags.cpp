#include "cli/flags/model_flags.h"

#include "cli/flags/checks.h"

namespace bmoe::cli {

void ModelFlags::add_to(CLI::App &app, CommandLine &out) {
    app.add_option("-m,--model", out.engine.model, "GGUF file, or any shard of a split one")
        ->required()
        ->check(file_name())
        ->group("Model");
    app.add_option("-c,--ctx-size", out.engine.n_ctx, "Context in tokens; 0: what the model was trained with")
        ->capture_default_str()
        ->check(CLI::Range(0, 1 << 24))
        ->group("Model");
    app.add_flag("--no-repack", no_repack_, "Do not rearrange dense weights for faster kernels")->group("Model");
}

void ModelFlags::apply(CommandLine &out) { out.engine.repack = !no_repack_; }

}  // namespace bmoe::cli
