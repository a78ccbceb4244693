#include "telemetry/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "base/mib.h"

namespace bmoe::telemetry {

namespace {

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

std::string format(const char *pattern, ...) {
    char text[512];
    va_list args;
    va_start(args, pattern);
    std::vsnprintf(text, sizeof(text), pattern, args);
    va_end(args);
    return text;
}

// The q-quantile by nearest rank; -1 without values.
double quantile(std::vector<double> values, double q) {
    if (values.empty()) {
        return -1;
    }
    std::sort(values.begin(), values.end());
    const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size())));
    return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

double percent(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : -1;
}

double percent(double share) { return share < 0 ? -1 : 100 * share; }

double ratio(double value, double per) { return per > 0 ? value / per : -1; }

std::string drops(uint64_t dropped, uint64_t routed, double mass) {
    return format("dropped %llu of %llu routed (%.2f%%), mass lost %.2f%%", static_cast<unsigned long long>(dropped),
                  static_cast<unsigned long long>(routed), percent(dropped, routed), percent(mass));
}

void add_lossy(const RunSummary &run, std::vector<std::string> &lines) {
    if (!run.lossy.empty()) {
        lines.push_back("lossy: " + run.lossy);
    }
}

}  // namespace

std::vector<std::string> summary_lines(const RunSummary &run) {
    std::vector<std::string> lines;
    const auto steps = static_cast<double>(run.step_seconds.size());
    double total = 0;
    for (const double step : run.step_seconds) {
        total += step;
    }
    lines.push_back(
        format("generation: %u tokens, %.4f s/token (%.2f tok/s), median %.4f s, p95 %.4f s; prompt %u tokens in "
               "%.3f s (%.1f tok/s); load %.2f s, first token after %.2f s",
               run.generated, ratio(total, steps), ratio(steps, total), quantile(run.step_seconds, 0.5),
               quantile(run.step_seconds, 0.95), run.prompt_tokens, run.prompt_seconds,
               ratio(run.prompt_tokens, run.prompt_seconds), run.load_seconds, run.first_token_seconds));
    // Without streaming the whole step: what of it is page faults cannot be told apart.
    const double experts = run.streaming ? ratio(run.expert_compute_seconds, steps) : -1;
    const double rest = run.streaming ? ratio(total - run.bound.expert_seconds, steps) : -1;
    const double compute = run.streaming && steps > 0 ? experts + rest : ratio(total, steps);
    lines.push_back(
        format("compute: %.4f s/token, experts %.4f + rest %.4f, %.2f of %d threads busy, user %.2f s, system %.2f s, "
               "majflt/token %.2f, "
               "minflt/token %.2f, peak RSS %.0f MiB, dense_resident_frac %.3f",
               compute, experts, rest, ratio(run.user_seconds + run.system_seconds, run.decode_seconds), run.threads,
               run.user_seconds, run.system_seconds, ratio(static_cast<double>(run.major_faults), steps),
               ratio(static_cast<double>(run.minor_faults), steps),
               run.peak_rss < 0 ? -1.0 : static_cast<double>(run.peak_rss) / kMiB, run.dense_resident));
    if (!run.streaming) {
        add_lossy(run, lines);
        return lines;
    }
    const auto read = static_cast<double>(run.read_bytes);
    lines.push_back(
        format("moe-stream: read %.0f MiB (%.1f MiB/token), %.2f GiB/s %s, compute %.4f + flash I/O %.4f s/token, "
               "prompt %.0f MiB, o_direct=%d",
               read / kMiB, ratio(read / kMiB, steps), ratio(read / kMiB / 1024, run.read_active_seconds),
               run.o_direct ? "O_DIRECT" : "buffered", compute, ratio(run.stall_seconds, steps),
               static_cast<double>(run.prompt_read_bytes) / kMiB, run.o_direct ? 1 : 0));
    const auto uses = static_cast<double>(run.hits + run.misses);
    lines.push_back(
        format("moe-cache: %.1f%% hit, resident %.0f MiB of %.0f MiB, policy %s, huge pages %s, "
               "warm start %.0f MiB",
               uses > 0 ? 100.0 * static_cast<double>(run.hits) / uses : -1.0,
               static_cast<double>(run.resident_bytes) / kMiB, static_cast<double>(run.slot_bytes) / kMiB,
               run.policy.c_str(), run.huge_pages ? "yes" : "no", static_cast<double>(run.warmed_bytes) / kMiB));
    if (run.lookahead) {
        lines.push_back(format(
            "moe-lookahead: %.1f%% of misses foreseen (%.1f%% already read), %.1f%% of %.1f reads/token right, %.1f "
            "MiB/token wasted, %.1f MiB/token early: %.4f s/token of reading not waited for",
            percent(run.guesses_right, run.guessable_misses), percent(run.guesses_ready, run.guessable_misses),
            percent(run.guesses_right, run.guesses_started), ratio(static_cast<double>(run.guesses_started), steps),
            ratio(static_cast<double>(run.wasted_bytes) / kMiB, steps),
            ratio(static_cast<double>(run.early_bytes) / kMiB, steps),
            ratio(ratio(static_cast<double>(run.early_bytes) * run.read_active_seconds, read), steps)));
    }
    if (run.drops_in_prompt) {
        lines.push_back("moe-drop-prompt: " + drops(run.prompt_dropped, run.prompt_routed, run.prompt_dropped_mass));
    }
    if (run.drops) {
        lines.push_back("moe-drop: " + drops(run.dropped, run.routed, run.dropped_mass));
    }
    if (run.substitutes) {
        lines.push_back(format("moe-substitute: substituted %llu of %llu routed (%.2f%%), mass %.2f%%",
                               static_cast<unsigned long long>(run.substituted),
                               static_cast<unsigned long long>(run.routed), percent(run.substituted, run.routed),
                               percent(run.substituted_mass)));
    }
    lines.push_back(bound_line(run.prompt_bound));
    lines.push_back(bound_line(run.bound));
    if (!run.route_replay.empty()) {
        lines.push_back(run.route_replay);
    }
    add_lossy(run, lines);
    return lines;
}

}  // namespace bmoe::telemetry
