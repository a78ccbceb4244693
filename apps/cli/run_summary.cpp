#include "cli/run_summary.h"

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "engine/dense_residency.h"
#include "telemetry/summary.h"

namespace bmoe::cli {

namespace {

telemetry::RunSummary summarise(const engine::Engine &engine, const engine::GenerationStats &stats,
                                double before_prompt) {
    telemetry::RunSummary run;
    run.prompt_tokens = stats.prompt_tokens;
    run.prompt_seconds = stats.prompt.seconds;
    run.generated = stats.generated;
    run.step_seconds = stats.step_seconds;
    run.load_seconds = engine.report().load_seconds;
    if (stats.generated > 0 && stats.prompt_tokens > 0) {
        run.first_token_seconds = before_prompt + stats.prompt.seconds;
    }
    run.user_seconds = stats.decode.usage.user_seconds;
    run.system_seconds = stats.decode.usage.system_seconds;
    run.decode_seconds = stats.decode.seconds;
    run.major_faults = stats.decode.usage.major_faults;
    run.minor_faults = stats.decode.usage.minor_faults;
    run.peak_rss = telemetry::peak_rss_bytes();
    run.dense_resident = engine::dense_resident_fraction(engine);
    run.threads = engine.threads();
    run.streaming = engine.report().streaming;
    run.lossy = engine.report().lossy;
    if (engine.store() == nullptr || engine.store()->cache() == nullptr) {
        return run;
    }
    const backend::StoreCounters &decode = stats.decode.experts;
    const cache::ExpertCache &cache = *engine.store()->cache();
    run.o_direct = engine.report().o_direct;
    run.route_replay = engine.report().route_replay;
    run.stall_seconds = seconds_of(decode.stall_ns);
    run.expert_compute_seconds = seconds_of(decode.compute_ns) / engine.threads();
    run.read_bytes = decode.reads.bytes;
    run.prompt_read_bytes = stats.prompt.experts.reads.bytes;
    run.read_active_seconds = seconds_of(decode.reads.active_ns);
    run.hits = decode.cache.hits;
    run.misses = decode.cache.misses;
    run.resident_bytes = cache.resident_bytes();
    run.slot_bytes = cache.usage().mapped_bytes;
    run.policy = cache.policy() != nullptr ? cache.policy()->name() : "none";
    run.bound = engine::bound_input(engine, stats);
    run.prompt_bound = engine::prompt_bound_input(engine, stats);
    run.lookahead = engine.store()->lookahead().depth() > 0 && cache.policy() != nullptr;
    run.guesses_started = decode.lookahead.started;
    run.guesses_right = decode.lookahead.adopted;
    run.guesses_ready = decode.lookahead.ready;
    run.guessable_misses = decode.lookahead.misses;
    run.wasted_bytes = decode.lookahead.wasted_bytes;
    run.early_bytes = decode.lookahead.early_bytes;
    const backend::LossyOptions &lossy = engine.store()->options().lossy;
    run.drops = lossy.drop_cold > 0 || lossy.quality_budget >= 0;
    run.substitutes = lossy.substitute_cold > 0 || lossy.quality_budget >= 0;
    run.routed = decode.lossy.routed;
    run.dropped = decode.lossy.dropped;
    run.substituted = decode.lossy.substituted;
    run.dropped_mass = decode.lossy.share(decode.lossy.mass_dropped);
    run.substituted_mass = decode.lossy.share(decode.lossy.mass_substituted);
    const backend::LossyCounters &prompt = stats.prompt.experts.lossy;
    run.drops_in_prompt = lossy.drop_cold > 0 && lossy.drop_in_prefill;
    run.prompt_routed = prompt.routed;
    run.prompt_dropped = prompt.dropped;
    run.prompt_dropped_mass = prompt.share(prompt.mass_dropped);
    run.huge_pages = cache.usage().huge_pages;
    run.warmed_bytes = engine.store()->warmed_bytes();
    return run;
}

}  // namespace

void print_summary(const engine::Engine &engine, const engine::GenerationStats &stats, double before_prompt) {
    for (const std::string &line : telemetry::summary_lines(summarise(engine, stats, before_prompt))) {
        std::fprintf(stderr, "%s\n", line.c_str());
    }
}

}  // namespace bmoe::cli
