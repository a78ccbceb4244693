#include "cli/run.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "cli/progress_line.h"
#include "engine/chat_prompt.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "telemetry/summary.h"

namespace bmoe::cli {

namespace {

volatile std::sig_atomic_t interrupted = 0;

// The first one ends the generation, the second the program.
void on_interrupt(int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
}

bool should_stop(void *) { return interrupted != 0; }

// Text to stdout; after the first failure nothing more is written.
class Output {
  public:
    void write(std::string_view text) {
        failed_ =
            failed_ || std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0;
        error_ = failed_ && error_ == 0 ? errno : error_;
    }
    bool failed() const { return failed_; }
    // A reader that has gone away is no error of ours.
    int exit_status() const { return error_ == EPIPE ? 128 + SIGPIPE : 1; }
    std::string error() const { return cat("cannot write to standard output: ", std::strerror(error_)); }

  private:
    bool failed_ = false;
    int error_ = 0;
};

double seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

telemetry::RunSummary summarise(const engine::Engine &engine, const engine::GenerationStats &stats,
                                double before_prompt) {
    telemetry::RunSummary run;
    run.prompt_tokens = stats.prompt_tokens;
    run.prompt_seconds = stats.prompt.seconds;
    run.generated = stats.generated;
    run.step_seconds = stats.step_seconds;
    run.load_seconds = engine.report().load_seconds;
    run.first_token_seconds = before_prompt + stats.prompt.seconds;
    run.user_seconds = stats.decode.usage.user_seconds;
    run.system_seconds = stats.decode.usage.system_seconds;
    run.decode_seconds = stats.decode.seconds;
    run.major_faults = stats.decode.usage.major_faults;
    run.minor_faults = stats.decode.usage.minor_faults;
    run.peak_rss = telemetry::peak_rss_bytes();
    run.threads = engine.threads();
    run.streaming = engine.report().streaming;
    if (engine.store() == nullptr || engine.store()->cache() == nullptr) {
        return run;
    }
    const backend::StoreCounters &decode = stats.decode.experts;
    const cache::ExpertCache &cache = *engine.store()->cache();
    run.o_direct = engine.report().o_direct;
    run.route_replay = engine.report().route_replay;
    run.stall_seconds = seconds(decode.stall_ns);
    run.read_bytes = decode.reads.bytes;
    run.prompt_read_bytes = stats.prompt.experts.reads.bytes;
    run.read_active_seconds = seconds(decode.reads.active_ns);
    run.hits = decode.cache.hits;
    run.misses = decode.cache.misses;
    run.resident_bytes = cache.resident_bytes();
    run.slot_bytes = cache.usage().mapped_bytes;
    run.policy = cache.policy() != nullptr ? cache.policy()->name() : "none";
    run.bound = engine::bound_input(engine, stats);
    run.lookahead = engine.store()->lookahead().depth() > 0;
    run.guesses_started = decode.lookahead.started;
    run.guesses_right = decode.lookahead.adopted;
    run.guesses_ready = decode.lookahead.ready;
    run.guessable_misses = decode.lookahead.misses;
    run.wasted_bytes = decode.lookahead.wasted_bytes;
    run.huge_pages = cache.usage().huge_pages;
    run.warmed_bytes = engine.store()->warmed_bytes();
    return run;
}

void print_lines(const engine::Engine &engine, const engine::GenerationStats &stats, double before_prompt) {
    for (const std::string &line : telemetry::summary_lines(summarise(engine, stats, before_prompt))) {
        std::fprintf(stderr, "%s\n", line.c_str());
    }
}

}  // namespace

int run(const CommandLine &command) {
    const auto start = std::chrono::steady_clock::now();
    ProgressLine progress("loading " + command.engine.model);
    engine::Options options = command.engine;
    options.on_progress = [&](float done) { progress.show(done); };
    options.on_note = [&](const std::string &line) {
        progress.clear();
        std::fprintf(stderr, "note: %s\n", line.c_str());
    };
    engine::Engine engine(options);
    progress.clear();
    const engine::OpenReport &report = engine.report();
    std::fprintf(stderr, "%s; loaded in %.2f s\n", report.mode_note.c_str(), report.load_seconds);
    if (report.streaming) {
        std::fprintf(stderr, "memory: %s; ubatch %u\n", report.plan.describe().c_str(), report.n_ubatch);
    }

    const std::string text =
        command.chat ? engine::render_user_message(engine.model(), command.prompt) : command.prompt;
    const auto prompt = engine.tokenize(text, !command.chat);
    const double before_prompt = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGPIPE, SIG_IGN);
    llama_set_abort_callback(engine.context(), should_stop, nullptr);

    Output output;
    if (!command.chat) {
        output.write(command.prompt);
    }
    engine::GenerationStats stats;
    const auto on_text = [&](std::string_view piece) {
        output.write(piece);
        return !output.failed() && interrupted == 0;
    };
    try {
        engine::generate(engine, prompt, static_cast<uint32_t>(command.max_tokens), on_text, stats);
    } catch (const Error &) {
        output.write("\n");
        print_lines(engine, stats, before_prompt);
        if (interrupted != 0) {
            return 130;
        }
        throw;
    }
    // From here on little is left to do, and a profile that is being written should not be left half done.
    std::signal(SIGINT, SIG_IGN);
    output.write("\n");
    if (stats.context_full) {
        std::fprintf(stderr, "note: stopped at the end of the context of %u tokens; -c makes it larger\n",
                     llama_n_ctx(engine.context()));
    }
    print_lines(engine, stats, before_prompt);
    if (output.failed()) {
        std::fprintf(stderr, "error: %s\n", output.error().c_str());
        return output.exit_status();
    }
    return interrupted != 0 ? 130 : 0;
}

}  // namespace bmoe::cli
