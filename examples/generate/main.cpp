// Generates text with bmoe's library: opens a model, prints the answer as it comes, and what it took.
//
//   bmoe-generate model.gguf "Once upon a time" [MiB for the expert cache]
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "bmoe/bmoe.h"

namespace {

bmoe::Model *running = nullptr;

void on_interrupt(int) { running->cancel(); }

// While it lives, Ctrl-C ends what the model does.
class StopOnInterrupt {
  public:
    explicit StopOnInterrupt(bmoe::Model &model) {
        running = &model;
        std::signal(SIGINT, on_interrupt);
    }
    ~StopOnInterrupt() { std::signal(SIGINT, SIG_DFL); }
    StopOnInterrupt(const StopOnInterrupt &) = delete;
    StopOnInterrupt &operator=(const StopOnInterrupt &) = delete;
};

void generate(const std::string &path, const std::string &prompt, const char *cache_mib) {
    bmoe::ModelOptions options;
    options.path = path;
    if (cache_mib != nullptr) {
        options.cache_bytes = std::strtoull(cache_mib, nullptr, 10) << 20;
    }
    options.on_note = [](const std::string &line) { std::fprintf(stderr, "note: %s\n", line.c_str()); };
    bmoe::Model model(options);
    std::fprintf(stderr, "%s\n", model.info().mode.c_str());

    bmoe::Request request;
    request.prompt = prompt;
    request.max_tokens = 32;
    request.on_text = [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stdout);
        return std::fflush(stdout) == 0;
    };
    const StopOnInterrupt stop(model);
    const bmoe::Answer answer = model.generate(request);
    std::printf("\n");
    std::fprintf(stderr, "%u tokens, prompt of %u tokens in %.2f s\n", answer.generated_tokens, answer.prompt_tokens,
                 answer.prompt_seconds);
    if (answer.decode_steps > 0) {
        std::fprintf(stderr, "%.2f tok/s\n", answer.decode_steps / answer.decode_seconds);
    }
    if (answer.hit_rate >= 0) {
        std::fprintf(stderr, "%.1f %% of the experts were in the cache of %.0f MiB\n", 100 * answer.hit_rate,
                     static_cast<double>(model.stats().cache_bytes) / (1 << 20));
    }
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) {
        std::fprintf(stderr, "usage: %s model.gguf prompt [MiB for the expert cache]\n", argv[0]);
        return 2;
    }
    try {
        generate(argv[1], argv[2], argc > 3 ? argv[3] : nullptr);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
