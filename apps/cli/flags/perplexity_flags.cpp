#include "cli/flags/perplexity_flags.h"

#include <limits>
#include <string>

namespace bmoe::cli {

void PerplexityFlags::add_to(CLI::App &app, CommandLine &out) {
    app_ = &app;
    app.require_subcommand(0, 1);
    app.add_subcommand(
           "perplexity",
           "How well the model foresees a text (-f FILE), decoded token by token; -n: tokens to score at most")
        ->fallthrough()
        ->callback([&out] { out.mode = Mode::kPerplexity; });
}

void PerplexityFlags::apply(CommandLine &out) {
    if (out.mode != Mode::kPerplexity) {
        return;
    }
    for (const char *flag : {"--chat", "--raw", "--no-think", "--session", "--list-models", "--temp", "--top-k",
                             "--top-p", "--min-p", "--seed", "--progress", "--csv", "--route-trace", "--io-trace"}) {
        if (app_->count(flag) > 0) {
            throw CLI::ValidationError(std::string(flag) + " has no meaning with perplexity: it generates nothing");
        }
    }
    if (app_->count("--route-replay") > 0) {
        throw CLI::ValidationError(
            "--route-replay takes the experts of another text: perplexity with it would be meaningless");
    }
    if (app_->count("--prompt") + app_->count("--file") == 0) {
        throw CLI::ValidationError("perplexity of what? Give a text with -f FILE");
    }
    if (app_->count("--predict") == 0) {
        out.max_tokens = std::numeric_limits<int>::max();
    }
}

}  // namespace bmoe::cli
