// Medians, how a decode begins, and ratios of interleaved runs.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace bmoe::bench {

// The mean of the two middle values where their number is even; empty without values.
std::optional<double> median(std::vector<double> values);

// How decoding begins. `seconds`: mean of the first 8 steps, empty with fewer. `ratio`: that over the median of the steps after
// the 32nd, empty with fewer than 40 steps.
struct FirstTokens {
    std::optional<double> seconds;
    std::optional<double> ratio;
};
FirstTokens first_tokens(std::span<const double> step_seconds);

struct Spread {
    double median = 0;
    double min = 0;
    double max = 0;
    size_t pairs = 0;
};

// Of a[i] / b[i], over the pairs of which both were measured and b[i] is not 0; empty if there are none. Ratios within a pair,
// because the machine's speed drifts from pair to pair.
std::optional<Spread> ratio_of_pairs(std::span<const std::optional<double>> a,
                                     std::span<const std::optional<double>> b);

}  // namespace bmoe::bench
