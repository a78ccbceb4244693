// REAP, reuse-hazard eviction: evicts the expert that is least likely to be used when its layer runs next, and among equals
// the one whose layer runs next the latest.
//
// An expert's hazard, the chance that the next token uses it, is learned online from how long ago and how often it was used
// (HazardTable) and corrected by what the experts selected now are usually followed by (TransitionTable). Clocks tick once a
// token and layer. The cost is a few passes over a layer's experts per visit and nothing per expert between visits.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "cache/expert_index.h"
#include "cache/hazard_table.h"
#include "cache/policy.h"
#include "cache/transition_table.h"

namespace bmoe::cache {

class ReapPolicy final : public Policy {
  public:
    // Without transitions (REAP-lite) the tables grow with layers x experts only.
    ReapPolicy(const Geometry &geometry, std::span<const uint32_t> size_class, bool with_transitions);

    std::string_view name() const override { return transitions_ ? "reap" : "reap-lite"; }
    void visit(const Visit &visit) override;
    void inserted(ExpertId id) override;
    void evicted(ExpertId id) override;
    std::optional<ExpertId> victim(uint32_t size_class) override;
    void pin(ExpertId id) override;
    void unpin(ExpertId id) override;
    bool prefers(ExpertId candidate, ExpertId victim) const override { return score(candidate) > score(victim); }
    std::vector<float> frequencies() const override { return frequency_; }
    void start_from(std::span<const float> frequencies) override;

    // Chance, 0..1, that the next visit of its layer uses the expert, as of the layer's last visit.
    float score(ExpertId id) const { return score_[index_(id)]; }

  private:
    struct Layer {
        std::vector<uint16_t> selected;  // by the last token
        std::vector<uint16_t> resident;  // in no order
        uint32_t worst = 0;              // evictable expert with the lowest score, index in the layer
        float worst_score = 0;           // infinite if there is none
        bool worst_known = false;
    };

    void tick(const Visit &visit, uint32_t token);
    void learn(size_t layer, std::span<const int32_t> selected, float weight);
    void rate(const Visit &visit);
    void find_worst(size_t layer);
    void became_evictable(ExpertId id);
    void no_longer_evictable(ExpertId id);

    ExpertIndex index_;
    HazardTable hazard_;
    std::optional<TransitionTable> transitions_;
    std::vector<Layer> layers_;
    std::vector<std::vector<uint32_t>> class_layers_;  // by size class: its layers
    std::vector<float> discount_;                      // by distance: 1 / (1 + d/L)
    size_t current_layer_ = 0;

    // By expert.
    std::vector<float> frequency_;  // share of its layer's tokens that use it, fading with a half-life of 32
    std::vector<uint8_t> age_;      // tokens since its last use, up to HazardTable::kOldest
    std::vector<uint8_t> cell_;     // of the hazard table, as of the last tick
    std::vector<float> score_;
    std::vector<uint32_t> pins_;
    std::vector<uint16_t> place_;  // in its layer's list of residents; kNotResident if it is not there

    // Scratch. By expert of one layer: position on the frequency axis, expected use.
    std::vector<float> position_, expected_;
    std::vector<uint16_t> now_;   // experts that the token at hand selects
    std::vector<float> weights_;  // of these, sum 1
    HazardTable::Counts seen_{}, used_{};
};

}  // namespace bmoe::cache
