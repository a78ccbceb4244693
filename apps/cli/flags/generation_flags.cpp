#include "cli/flags/generation_flags.h"

#include <random>

#include "cli/flags/checks.h"

namespace bmoe::cli {

void GenerationFlags::add_to(CLI::App &app, CommandLine &out) {
    predict_ = app.add_option("-n,--predict", out.max_tokens,
                              "Tokens to generate at most; in a conversation as many as fit, if not given")
                   ->capture_default_str()
                   ->check(CLI::Range(1, CommandLine::kAsManyAsFit))
                   ->group("Generation");
    app.add_option("--temp", out.sampling.temperature, "Temperature; 0: always the likeliest token")
        ->capture_default_str()
        ->check(number_from(0, 100))
        ->group("Generation");
    app.add_option("--top-k", out.sampling.top_k, "With a temperature: of the k likeliest tokens only; 0: of all")
        ->capture_default_str()
        ->check(CLI::Range(0, 1 << 30))
        ->group("Generation");
    app.add_option("--top-p", out.sampling.top_p,
                   "With a temperature: of the likeliest ones that have this share; 1: of all")
        ->capture_default_str()
        ->check(number_from(0, 1))
        ->group("Generation");
    app.add_option("--min-p", out.sampling.min_p,
                   "With a temperature: of those this many times as likely as the likeliest; 0: of all")
        ->capture_default_str()
        ->check(number_from(0, 1))
        ->group("Generation");
    app.add_option("-s,--seed", out.sampling.seed,
                   "With a temperature: the same number gives the same text; "
                   "default: another one each time")
        ->group("Generation");
}

void GenerationFlags::apply(CommandLine &out) {
    if (out.mode == Mode::kChat && predict_->count() == 0) {
        out.max_tokens = CommandLine::kAsManyAsFit;
    }
    // Drawn here, so that what is recorded of the run can repeat its text. Several answers are to differ from each other.
    if (out.mode == Mode::kOneShot && out.sampling.temperature > 0 && out.sampling.seed == LLAMA_DEFAULT_SEED) {
        out.sampling.seed = std::random_device()() % LLAMA_DEFAULT_SEED;
    }
}

}  // namespace bmoe::cli
