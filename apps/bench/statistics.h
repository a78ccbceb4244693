// Medians, and ratios of interleaved runs.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace bmoe::bench {

// The mean of the two middle values where their number is even; empty without values.
std::optional<double> median(std::vector<double> values);

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
