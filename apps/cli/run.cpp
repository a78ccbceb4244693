#include "cli/run.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/progress_line.h"
#include "engine/chat_prompt.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "telemetry/summary.h"

namespace bmoe::cli {

namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) { interrupted = 1; }

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
    run.stall_seconds = seconds(decode.stall_ns);
    run.read_bytes = decode.reads.bytes;
    run.prompt_read_bytes = stats.prompt.experts.reads.bytes;
    run.read_active_seconds = seconds(decode.reads.active_ns);
    run.hits = decode.cache.hits;
    run.misses = decode.cache.misses;
    run.resident_bytes = cache.resident_bytes();
    run.slot_bytes = cache.usage().mapped_bytes;
    run.policy = cache.policy() != nullptr ? cache.policy()->name() : "none";
    run.huge_pages = cache.usage().huge_pages;
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
        std::fprintf(stderr, "memory: %s\n", report.plan.describe().c_str());
    }

    const std::string text =
        command.chat ? engine::render_user_message(engine.model(), command.prompt) : command.prompt;
    const auto prompt = engine.tokenize(text, !command.chat);
    if (!command.chat) {
        std::fputs(command.prompt.c_str(), stdout);
        std::fflush(stdout);
    }
    const double before_prompt = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    std::signal(SIGINT, on_interrupt);
    engine::GenerationStats stats;
    const auto on_text = [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
        return interrupted == 0;
    };
    try {
        engine::generate(engine, prompt, static_cast<uint32_t>(command.max_tokens), on_text, stats);
    } catch (const Error &) {
        std::fputs("\n", stdout);
        std::fflush(stdout);
        print_lines(engine, stats, before_prompt);
        throw;
    }
    std::fputs("\n", stdout);
    std::fflush(stdout);
    print_lines(engine, stats, before_prompt);
    return interrupted != 0 ? 130 : 0;
}

}  // namespace bmoe::cli
