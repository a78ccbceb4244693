// Recorded routing, and the replay of a cache on it: what would this policy have hit?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/policy.h"

namespace bmoe::cache {

// One row of the trace's tokens: what a token routed to in one layer.
struct RouteRow {
    uint32_t layer = 0;
    Phase phase = Phase::kDecode;
    std::vector<int32_t> experts;  // in rank order
    std::vector<float> weights;
};

struct RouteTrace {
    std::string model;
    uint32_t n_expert = 0;
    uint32_t top_k = 0;
    std::vector<uint64_t> expert_bytes;  // per layer
    std::vector<RouteRow> rows;          // in recorded order
    Geometry geometry() const;           // one slice per expert
    uint32_t prompt_tokens() const;      // rows of the layer that has most in prefill: last layers may skip tokens
};

// Reads a route trace (CSV, "# route_trace v1"). Throws bmoe::Error naming the file and line.
RouteTrace read_route_trace(const std::string &path);

struct ReplayResult {
    uint64_t hit_bytes = 0, missed_bytes = 0;  // decode only
    double hit_rate() const;                   // share of bytes hit, 0..1
};

// Replays the trace against a byte budget, with pure ids (no memory is mapped). Prefill rows train and fill the cache, decode
// rows are counted.
ReplayResult replay(const RouteTrace &trace, PolicyKind kind, uint64_t budget);

}  // namespace bmoe::cache
