// Which experts of a layer follow which, from one token to the next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/expert_index.h"
#include "cache/geometry.h"

namespace bmoe::cache {

class TransitionTable {
  public:
    explicit TransitionTable(const Geometry &geometry);

    // Memory that the table takes, in bytes.
    static uint64_t bytes(const Geometry &geometry);

    // A token selected `after`, the one before it `before`.
    void learn(size_t layer, std::span<const uint16_t> before, std::span<const uint16_t> after);

    // Expected use of each expert of the layer at the next token, given what this one selected and with which weights (sum 1).
    // An expert's `frequency` stands in for transitions that were not seen. `expected` and `frequency` hold all the layer's
    // experts.
    void predict(size_t layer, std::span<const uint16_t> selected, std::span<const float> weights,
                 const float *frequency, float *expected) const;

  private:
    ExpertIndex index_;
    std::vector<size_t> matrix_;        // by layer: where its counts begin
    std::vector<uint16_t> counts_;      // by layer, expert before, expert after
    std::vector<uint16_t> row_counts_;  // by expert: how often it was the one before
};

}  // namespace bmoe::cache
