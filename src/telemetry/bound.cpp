#include "telemetry/bound.h"

#include <algorithm>
#include <cstdio>

#include "base/mib.h"

namespace bmoe::telemetry {

namespace {
// Fewer cached layers than this say too little about all of them.
constexpr uint64_t kFewestSplits = 16;

// The larger of the two, and how close `seconds` come to it.
void judge(Bound &bound, double seconds) {
    if (bound.compute >= 0 && bound.io >= 0) {
        bound.bound = std::max(bound.compute, bound.io);
        bound.reached = bound.bound / seconds;
    }
}

const char *binding(const Bound &bound) {
    return bound.bound < 0 ? "not measured" : bound.io > bound.compute ? "I/O" : "compute";
}

double gib_per_second(double bandwidth) { return bandwidth > 0 ? bandwidth / kMiB / 1024 : -1; }

double percent(double share) { return share < 0 ? -1 : 100 * share; }
}  // namespace

Bound bound_of(const BoundInput &input) {
    Bound bound;
    if (input.tokens == 0 || input.seconds <= 0) {
        return bound;
    }
    const auto tokens = static_cast<double>(input.tokens);
    if (input.cached_splits >= kFewestSplits) {
        const double cached = input.cached_seconds / static_cast<double>(input.cached_splits);
        bound.compute = (input.seconds - input.expert_seconds + cached * static_cast<double>(input.splits)) / tokens;
    }
    if (input.bandwidth > 0) {
        bound.io = static_cast<double>(input.needed_bytes) / input.bandwidth / tokens;
    }
    judge(bound, input.seconds / tokens);
    return bound;
}

Bound bound_of(const PromptBoundInput &input) {
    Bound bound;
    if (input.tokens == 0 || input.seconds <= 0) {
        return bound;
    }
    bound.compute = std::max(0.0, input.seconds - input.stall_seconds);
    if (input.bandwidth > 0) {
        bound.io = static_cast<double>(input.needed_bytes) / input.bandwidth;
    }
    judge(bound, input.seconds);
    return bound;
}

std::string bound_line(const BoundInput &input) {
    const Bound bound = bound_of(input);
    const double mib =
        input.tokens > 0 ? static_cast<double>(input.needed_bytes) / kMiB / static_cast<double>(input.tokens) : -1;
    char text[256];
    std::snprintf(text, sizeof(text),
                  "bound: compute %.4f s/token (%llu of %llu layer visits were cached), I/O %.4f s/token (%.1f MiB at "
                  "%.2f GiB/s), bound by %s, %.0f%% reached",
                  bound.compute, static_cast<unsigned long long>(input.cached_splits),
                  static_cast<unsigned long long>(input.splits), bound.io, mib, gib_per_second(input.bandwidth),
                  binding(bound), percent(bound.reached));
    return text;
}

std::string bound_line(const PromptBoundInput &input) {
    const Bound bound = bound_of(input);
    const double mib = input.tokens > 0 ? static_cast<double>(input.needed_bytes) / kMiB : -1;
    char text[256];
    std::snprintf(text, sizeof(text),
                  "prompt-bound: compute %.3f s, I/O %.3f s (%.0f MiB at %.2f GiB/s), bound by %s, %.0f%% reached",
                  bound.compute, bound.io, mib, gib_per_second(input.bandwidth), binding(bound),
                  percent(bound.reached));
    return text;
}

}  // namespace bmoe::telemetry
