#include "cache/lossy_choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bmoe::cache {

namespace {

bool contains(std::span<const int32_t> experts, int32_t expert) {
    return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

// The resident expert with the highest score that is not among `experts`; kDropped if there is none.
int32_t best_other(std::span<const int32_t> experts, std::span<const Residency> residency,
                   std::span<const float> scores) {
    int32_t best = kDropped;
    for (size_t e = 0; e < scores.size(); ++e) {
        if (residency[e] == Residency::kResident && (best == kDropped || scores[e] > scores[best]) &&
            !contains(experts, static_cast<int32_t>(e))) {
            best = static_cast<int32_t>(e);
        }
    }
    return best;
}

}  // namespace

// Orders a token's experts. False for a routing that is to be left alone.
bool LossyChoice::rank(std::span<const int32_t> experts, std::span<const float> weights) {
    sum_ = 0;
    for (size_t i = 0; i < experts.size(); ++i) {
        if (!std::isfinite(weights[i]) || weights[i] < 0 || contains(experts.first(i), experts[i])) {
            return false;
        }
        sum_ += weights[i];
    }
    order_.resize(experts.size());
    std::iota(order_.begin(), order_.end(), 0U);
    // No stable sort: that allocates.
    std::sort(order_.begin(), order_.end(),
              [&](uint32_t a, uint32_t b) { return weights[a] > weights[b] || (weights[a] == weights[b] && a < b); });
    return sum_ > 0;
}

bool LossyChoice::has_replaceable(std::span<const int32_t> experts, std::span<const float> weights,
                                  std::span<const Residency> residency) {
    return rank(experts, weights) && std::any_of(order_.begin() + static_cast<ptrdiff_t>(heavier_half()), order_.end(),
                                                 [&](uint32_t i) { return residency[experts[i]] == Residency::kCold; });
}

bool LossyChoice::may_drop(std::span<const float> weights, size_t place, const LossyLimits &limits) const {
    const double share = weights[order_[place]] / sum_;
    return place > 0 && share < limits.drop / static_cast<double>(order_.size());
}

void LossyChoice::substitute(std::span<int32_t> experts, std::span<float> weights, std::span<const Residency> residency,
                             std::span<const float> scores, double least, double allowance, Forgone &forgone) const {
    for (size_t place = heavier_half(); place < order_.size(); ++place) {
        const uint32_t i = order_[place];
        if (residency[experts[i]] != Residency::kCold) {
            continue;
        }
        const int32_t other = best_other(experts, residency, scores);
        if (other == kDropped) {
            return;
        }
        const double ratio = std::min(1.0, static_cast<double>(scores[other]) / scores[experts[i]]);
        if (!(ratio >= least)) {  // nor if it is no number
            continue;
        }
        const double lost = weights[i] / sum_ * (1 - ratio);
        if (forgone.mass() + lost > allowance) {
            forgone.refused = true;
            continue;
        }
        experts[i] = other;
        weights[i] = static_cast<float>(weights[i] * ratio);
        ++forgone.substituted;
        forgone.mass_substituted += lost;
    }
}

Forgone LossyChoice::choose(std::span<int32_t> experts, std::span<float> weights, std::span<const Residency> residency,
                            std::span<const float> scores, const LossyLimits &limits, double allowance,
                            bool renormalise) {
    Forgone forgone;
    if (!rank(experts, weights)) {
        return forgone;
    }
    if (!scores.empty() && limits.substitute > 0) {
        substitute(experts, weights, residency, scores, limits.substitute, allowance, forgone);
    }
    for (size_t place = order_.size(); place-- > 1;) {
        const uint32_t i = order_[place];
        if (residency[experts[i]] != Residency::kCold || !may_drop(weights, place, limits)) {
            continue;
        }
        const double lost = weights[i] / sum_;
        if (forgone.mass() + lost > allowance) {
            forgone.refused = true;
            break;  // the others weigh no less
        }
        experts[i] = kDropped;
        weights[i] = 0;
        ++forgone.dropped;
        forgone.mass_dropped += lost;
    }
    if (renormalise && forgone.any()) {
        const double factor = sum_ / std::accumulate(weights.begin(), weights.end(), 0.0);
        for (float &weight : weights) {
            weight = static_cast<float>(weight * factor);
        }
    }
    return forgone;
}

void LossyChoice::keep_needed(std::span<const int32_t> experts, std::span<const float> weights, size_t top_k,
                              const LossyLimits &limits, std::span<Residency> residency) {
    for (size_t at = 0; at < experts.size(); at += top_k) {
        const auto selected = experts.subspan(at, top_k);
        const bool is_usual = rank(selected, weights.subspan(at, top_k));
        for (size_t place = 0; place < top_k; ++place) {
            if (!is_usual || !may_drop(weights.subspan(at, top_k), place, limits)) {
                residency[selected[is_usual ? order_[place] : place]] = Residency::kResident;
            }
        }
    }
}

}  // namespace bmoe::cache
