#include "cache/quality_budget.h"

#include <algorithm>

namespace bmoe::cache {

namespace {

constexpr double kStep = 1.0 / 32;    // of the width, for a token that forgoes nothing
constexpr double kMostSteps = 4;      // back at once, after a token that forgoes far too much
constexpr double kAim = 0.95;         // of the budget: a token that is stopped short forgoes in its first layers only
constexpr double kSubstitutes = 0.5;  // of the width, before anything is dropped
constexpr double kLeastScore = 0.25;  // a substitute that the router likes less is hardly better than none
constexpr double kMostDropped = 1.0;  // the mean weight

}  // namespace

LossyLimits QualityBudget::limits() const {
    if (share_ <= 0) {
        return {};
    }
    const double substitutes = std::min(1.0, width_ / kSubstitutes);
    const double drops = std::max(0.0, (width_ - kSubstitutes) / (1 - kSubstitutes));
    return {.drop = kMostDropped * drops, .substitute = 1 - (1 - kLeastScore) * substitutes};
}

LossyLimits QualityBudget::next_token() {
    if (now_.routed > 0 && share_ > 0) {
        const double aim = kAim * share_;
        const double error = (aim - now_.forgone / now_.routed) / aim;
        width_ = std::clamp(width_ + kStep * (refused_ ? -1 : std::max(error, -kMostSteps)), 0.0, 1.0);
        past_[next_] = now_;
        next_ = (next_ + 1) % past_.size();
    }
    // Added up anew: differences would drift.
    past_sum_ = {};
    for (const Mass &mass : past_) {
        past_sum_.routed += mass.routed;
        past_sum_.forgone += mass.forgone;
    }
    now_ = {};
    refused_ = false;
    return limits();
}

double QualityBudget::allowance() const {
    return std::max(0.0, share_ * (past_sum_.routed + now_.routed) - past_sum_.forgone - now_.forgone);
}

double QualityBudget::average() const {
    const double routed = past_sum_.routed + now_.routed;
    return routed > 0 ? (past_sum_.forgone + now_.forgone) / routed : 0;
}

}  // namespace bmoe::cache
