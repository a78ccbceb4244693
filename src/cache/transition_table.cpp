#include "cache/transition_table.h"

#include <limits>

namespace bmoe::cache {

namespace {

constexpr float kPriorWeight = 6.0f;       // transitions that the frequency counts for
constexpr float kPriorFrequency = 0.001f;  // added to it, so that nothing is impossible

uint64_t cells(const Geometry &geometry) {
    uint64_t total = 0;
    for (const LayerGeometry &layer : geometry.layers) total += uint64_t{layer.n_expert} * layer.n_expert;
    return total;
}

}  // namespace

TransitionTable::TransitionTable(const Geometry &geometry)
    : index_(geometry), counts_(cells(geometry)), row_counts_(index_.count()) {
    size_t begin = 0;
    for (const LayerGeometry &layer : geometry.layers) {
        matrix_.push_back(begin);
        begin += size_t{layer.n_expert} * layer.n_expert;
    }
}

uint64_t TransitionTable::bytes(const Geometry &geometry) { return cells(geometry) * sizeof(uint16_t); }

void TransitionTable::learn(size_t layer, std::span<const uint16_t> before, std::span<const uint16_t> after) {
    const size_t experts = index_.experts(layer);
    for (uint16_t a : before) {
        uint16_t *row = &counts_[matrix_[layer] + a * experts];
        uint16_t &row_count = row_counts_[index_.begin(layer) + a];
        if (row_count == std::numeric_limits<uint16_t>::max()) {
            row_count /= 2;
            for (size_t b = 0; b < experts; ++b) row[b] /= 2;
        }
        ++row_count;
        for (uint16_t b : after) ++row[b];
    }
}

void TransitionTable::predict(size_t layer, std::span<const uint16_t> selected, std::span<const float> weights,
                              const float *frequency, float *expected) const {
    const size_t experts = index_.experts(layer);
    float prior = 0.0f;
    for (size_t i = 0; i < selected.size(); ++i) {
        prior += weights[i] * kPriorWeight / (row_counts_[index_.begin(layer) + selected[i]] + kPriorWeight);
    }
    for (size_t e = 0; e < experts; ++e) expected[e] = prior * (frequency[e] + kPriorFrequency);
    for (size_t i = 0; i < selected.size(); ++i) {
        const uint16_t *row = &counts_[matrix_[layer] + selected[i] * experts];
        const float scale = weights[i] / (row_counts_[index_.begin(layer) + selected[i]] + kPriorWeight);
        for (size_t e = 0; e < experts; ++e) expected[e] += scale * static_cast<float>(row[e]);
    }
}

}  // namespace bmoe::cache
