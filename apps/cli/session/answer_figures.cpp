#include "cli/session/answer_figures.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/mib.h"
#include "bmoe_version.h"
#include "telemetry/bound.h"

namespace bmoe::cli {

namespace {

// Not measured where there is nothing to divide by.
double ratio(double part, double whole) { return whole > 0 ? part / whole : -1; }

Json mib(uint64_t bytes) { return measured(static_cast<double>(bytes) / static_cast<double>(kMiB)); }

Json memory_plan(const cache::MemoryPlan &plan) {
    return {{"dense", mib(plan.items.dense)},     {"kv", mib(plan.items.kv)},
            {"compute", mib(plan.items.compute)}, {"staging", mib(plan.items.staging)},
            {"other", mib(plan.items.other)},     {"cache", mib(plan.slots)}};
}

Json expert_figures(const engine::GenerationStats &stats) {
    const backend::StoreCounters &decode = stats.decode.experts;
    const auto steps = static_cast<double>(stats.step_seconds.size());
    const auto hits = static_cast<double>(decode.cache.hits);
    return {
        {"hit_rate", measured(ratio(hits, hits + static_cast<double>(decode.cache.misses)))},
        {"mib_per_token", measured(ratio(static_cast<double>(decode.reads.bytes) / static_cast<double>(kMiB), steps))},
        {"wait_s_per_token", measured(ratio(seconds_of(decode.stall_ns), steps))},
        {"prompt_mib", mib(stats.prompt.experts.reads.bytes)}};
}

Json forgone(const backend::LossyCounters &lossy) {
    return {{"routed", lossy.routed},
            {"dropped", lossy.dropped},
            {"substituted", lossy.substituted},
            {"mass", measured(lossy.share(lossy.mass_dropped + lossy.mass_substituted))}};
}

Json lossy_figures(const engine::Engine &engine, const engine::GenerationStats &stats) {
    Json figures = {{"what", engine.report().lossy}};
    figures.update(forgone(stats.decode.experts.lossy));
    figures["prompt"] = forgone(stats.prompt.experts.lossy);
    return figures;
}

Json bound_figures(const engine::Engine &engine, const engine::GenerationStats &stats) {
    const telemetry::Bound bound = telemetry::bound_of(engine::bound_input(engine, stats));
    return {{"compute_s", measured(bound.compute)},
            {"io_s", measured(bound.io)},
            {"bound_s", measured(bound.bound)},
            {"reached", measured(bound.reached)}};
}

}  // namespace

Json ready_body(const CommandLine &command, const engine::Engine &engine, const std::vector<std::string> &notes) {
    const engine::OpenReport &report = engine.report();
    const bool caches = engine.store() != nullptr && engine.store()->cache() != nullptr;
    return {{"protocol", kSessionProtocol},
            {"version", kVersion},
            {"llama_cpp", kLlamaCppCommit},
            {"model", command.engine.model},
            {"mode", report.mode_note},
            {"streaming", report.streaming},
            {"lossy", report.lossy.empty() ? Json() : Json(report.lossy)},
            {"n_ctx", llama_n_ctx(engine.context())},
            {"n_ubatch", report.n_ubatch},
            {"threads", engine.threads()},
            {"chat_template", llama_model_chat_template(engine.model(), nullptr) != nullptr},
            {"cache_mb", caches ? mib(report.plan.slots) : Json()},
            {"memory_mb", report.streaming ? memory_plan(report.plan) : Json()},
            {"o_direct", report.o_direct},
            {"load_s", measured(report.load_seconds)},
            {"notes", notes}};
}

Json answer_figures(const engine::Engine &engine, const engine::GenerationStats &stats,
                    std::optional<size_t> prompt_tokens) {
    const double seconds = std::accumulate(stats.step_seconds.begin(), stats.step_seconds.end(), 0.0);
    const auto steps = static_cast<double>(stats.step_seconds.size());
    const bool streams = engine.report().streaming;
    return {{"prompt",
             {{"tokens", prompt_tokens ? Json(*prompt_tokens) : Json()},
              {"reused", stats.reused_tokens},
              {"decoded", stats.prompt_tokens},
              {"seconds", measured(stats.prompt.seconds)},
              {"tok_s", measured(ratio(stats.prompt_tokens, stats.prompt.seconds))}}},
            {"generated",
             {{"tokens", stats.generated}, {"seconds", measured(seconds)}, {"tok_s", measured(ratio(steps, seconds))}}},
            {"context", {{"tokens", engine.held_tokens()}, {"size", llama_n_ctx(engine.context())}}},
            {"experts", streams ? expert_figures(stats) : Json()},
            {"lossy", engine.report().lossy.empty() ? Json() : lossy_figures(engine, stats)},
            {"bound", streams ? bound_figures(engine, stats) : Json()}};
}

Json prompt_progress(size_t done, size_t total, size_t reused, double seconds) {
    const auto decoded = static_cast<double>(done - std::min(done, reused));
    const double rate = decoded > 0 ? ratio(decoded, seconds) : -1;
    return {{"done", done},
            {"total", total},
            {"tok_s", measured(rate)},
            {"eta_s", measured(ratio(static_cast<double>(total - done), rate))}};
}

}  // namespace bmoe::cli
