// Routing that reads less than the router asked for: of a token's experts that are not in memory, some are replaced by experts
// that are and that the router likes nearly as well, some are left out.
//
// Mass is the share of a token's router weights in one layer, 0..1. What is forgone of it says how far the routing that is used
// is from the router's: all of a dropped expert's, and of a replaced one's what the other has less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace bmoe::cache {

enum class Residency : uint8_t {
    kCold,  // would have to be read
    kComing,  // is being read ahead and partly there: to be used if it was selected, not to be waited for in another's place
    kResident,
};

// In place of an expert: nothing is computed for it.
inline constexpr int32_t kDropped = -1;

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct LossyLimits {
    // A cold expert with less than drop / top_k of the mass is dropped. 0: none is.
    double drop = 0;
    // A cold expert is replaced by one with at least this share of its score, 0..1. 0, or more than 1: none is.
    double substitute = 0;
};

struct Forgone {
    uint32_t dropped = 0;
    uint32_t substituted = 0;
    double mass_dropped = 0;
    double mass_substituted = 0;
    bool refused = false;  // something was within the limits and not within the allowance

    double mass() const { return mass_dropped + mass_substituted; }
    bool any() const { return dropped + substituted > 0; }
};

// Keeps its memory from one token to the next. Not thread-safe.
class LossyChoice {
  public:
    // True if some expert may be replaced, should there be a substitute: it is cold and not one of the heavier half of those
    // selected. That half carries most of the mass. In the lighter one, experts differ little from the next that were not
    // selected, so that a substitute costs little.
    bool has_replaceable(std::span<const int32_t> experts, std::span<const float> weights,
                         std::span<const Residency> residency);

    // Changes one token's routing: `experts` and their `weights` in any order. `residency` is by expert; so are `scores`, the
    // router's up to a common factor: without them none is replaced. First, heaviest first, experts are replaced by the
    // resident ones with the highest scores, each by another; a substitute's weight is as much smaller as its score, and never
    // larger. Then, lightest first, cold ones are dropped, with weight 0; never the one with the largest weight. Stops at
    // `allowance` of mass. `renormalise`: the others' weights are scaled so that their sum stays what it was.
    //
    // Leaves a routing alone whose weights are no numbers, or that selects an expert twice.
    Forgone choose(std::span<int32_t> experts, std::span<float> weights, std::span<const Residency> residency,
                   std::span<const float> scores, const LossyLimits &limits, double allowance, bool renormalise);

    // For the tokens of a batch, `top_k` experts each: those that must be read for one of them cost the others nothing. Makes
    // them resident for choose().
    void keep_needed(std::span<const int32_t> experts, std::span<const float> weights, size_t top_k,
                     const LossyLimits &limits, std::span<Residency> residency);

  private:
    bool rank(std::span<const int32_t> experts, std::span<const float> weights);
    size_t heavier_half() const { return (order_.size() + 1) / 2; }  // how many it has
    bool may_drop(std::span<const float> weights, size_t place, const LossyLimits &limits) const;
    void substitute(std::span<int32_t> experts, std::span<float> weights, std::span<const Residency> residency,
                    std::span<const float> scores, double least, double allowance, Forgone &forgone) const;

    std::vector<uint32_t> order_;  // places in the token's routing, by falling weight
    double sum_ = 0;               // of the weights
};

}  // namespace bmoe::cache
