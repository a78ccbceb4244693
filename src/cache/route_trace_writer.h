// Writes the routing of a run as a route trace, which read_route_trace() reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "cache/policy.h"

namespace bmoe::cache {

struct RouteTraceHeader {
    struct Layer {
        uint64_t expert_bytes = 0;  // of one expert
        uint32_t block = 0;         // the layer's number in the model
        bool has_scores = false;    // its router's scores can be computed
    };
    std::string model, architecture;
    uint32_t n_expert = 0;
    uint32_t top_k = 0;
    std::vector<Layer> layers;  // those with experts
};

struct RouterScore {
    int32_t expert = -1;
    float score = 0;
};

// Some tokens in one layer: the last `n_tokens` of those that are decoded together.
struct TracedVisit {
    uint16_t layer = 0;
    uint32_t n_tokens = 0;
    uint32_t top_k = 0;
    std::span<const int32_t> experts;     // tokens x top_k
    std::span<const int32_t> used;        // in their place; other ones where the routing was made lossy
    std::span<const float> weights;       // likewise; empty: not known
    std::span<const int32_t> resident;    // experts that were in the cache when they were selected
    std::span<const RouterScore> scores;  // tokens x as many as the writer was told; a token without any has expert -1
};

// Not thread-safe. What cannot be written is the file's error.
class RouteTraceWriter {
  public:
    // `n_scores`: of each token and layer, the highest; 0: no column for them. `file` must outlive it.
    RouteTraceWriter(OutputFile &file, uint32_t n_scores) : file_(file), n_scores_(n_scores) {}

    uint32_t n_scores() const { return n_scores_; }
    void begin(const RouteTraceHeader &header);

    // The tokens that are decoded next: the first of them is number `step` of its phase, from 0.
    void next_tokens(uint32_t turn, Phase phase, uint32_t step);
    void add(const TracedVisit &visit);
    // They have passed all layers. Rows of tokens of which this is never said are not written: a replay wants whole tokens.
    void commit();

  private:
    void add_row(const TracedVisit &visit, uint32_t token);

    OutputFile &file_;
    uint32_t n_scores_;
    std::vector<uint64_t> expert_bytes_;
    uint32_t turn_ = 0;
    Phase phase_ = Phase::kPrefill;
    uint32_t step_ = 0;
    uint32_t n_tokens_ = 0;    // decoded together; 0 until the first visit
    std::vector<bool> known_;  // experts of the visit at hand that are resident or whose bytes a row has
    std::vector<bool> resident_;
    std::string rows_;  // not committed
};

}  // namespace bmoe::cache
