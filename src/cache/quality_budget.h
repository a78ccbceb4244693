// Spends a budget of router mass (see lossy_choice.h) on reading less: decides from token to token how much may be forgone for
// the expert at hand.
//
// Two things keep the budget. The limits follow the spending: they widen while tokens forgo less than the budget, and narrow
// while they forgo more, substitutes first because they save a read for less mass. And within a token nothing is forgone any
// more once the average over the window would exceed the budget.
#pragma once

#include <array>
#include <cstddef>

#include "cache/lossy_choice.h"

namespace bmoe::cache {

// Not thread-safe.
class QualityBudget {
  public:
    static constexpr size_t kWindow = 256;  // tokens, the one at hand included

    // `share` of the mass, 0..1, may be forgone on average. 0: nothing is.
    explicit QualityBudget(double share) : share_(share) {}

    // Ends a token and begins the next; returns its limits.
    LossyLimits next_token();

    // A layer of the token was routed: its mass counts.
    void count_layer() { now_.routed += 1; }

    // Mass that may be forgone in the layer counted last. At the end of a token, the mass forgone in the last kWindow tokens, or
    // in all as long as they are fewer, is then at most `share` of theirs, if each has as many layers as the others.
    double allowance() const;

    void forgo(const Forgone &forgone) {
        now_.forgone += forgone.mass();
        refused_ = refused_ || forgone.refused;
    }

    // Share of the mass forgone in the last kWindow tokens, that at hand included.
    double average() const;

  private:
    // In layers.
    struct Mass {
        double routed = 0;
        double forgone = 0;
    };
    LossyLimits limits() const;

    double share_;
    double width_ = 0;  // of the limits, 0..1
    Mass now_;
    bool refused_ = false;
    std::array<Mass, kWindow - 1> past_{};
    size_t next_ = 0;  // the oldest of the past tokens
    Mass past_sum_;
};

}  // namespace bmoe::cache
