#include "telemetry/bound.h"

#include <algorithm>
#include <cstdio>

#include "base/mib.h"

namespace bmoe::telemetry {

namespace {
// Fewer cached layers than this say too little about all of them.
constexpr uint64_t kFewestSplits = 16;
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
    if (bound.compute >= 0 && bound.io >= 0) {
        bound.bound = std::max(bound.compute, bound.io);
        bound.reached = bound.bound * tokens / input.seconds;
    }
    return bound;
}

std::string bound_line(const BoundInput &input) {
    const Bound bound = bound_of(input);
    const double mib =
        input.tokens > 0 ? static_cast<double>(input.needed_bytes) / kMiB / static_cast<double>(input.tokens) : -1;
    const char *binding = bound.bound < 0 ? "not measured" : bound.io > bound.compute ? "I/O" : "compute";
    char text[256];
    std::snprintf(text, sizeof(text),
                  "bound: compute %.4f s/token (%llu of %llu layer visits were cached), I/O %.4f s/token (%.1f MiB at "
                  "%.2f GiB/s), bound by %s, %.0f%% reached",
                  bound.compute, static_cast<unsigned long long>(input.cached_splits),
                  static_cast<unsigned long long>(input.splits), bound.io, mib,
                  input.bandwidth > 0 ? input.bandwidth / kMiB / 1024 : -1.0, binding,
                  bound.reached < 0 ? -1.0 : 100 * bound.reached);
    return text;
}

}  // namespace bmoe::telemetry
