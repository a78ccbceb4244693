#include "bench/statistics.h"

#include <algorithm>

namespace bmoe::bench {

std::optional<double> median(std::vector<double> values) {
    if (values.empty()) {
        return std::nullopt;
    }
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<Spread> ratio_of_pairs(std::span<const std::optional<double>> a,
                                     std::span<const std::optional<double>> b) {
    std::vector<double> ratios;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        if (a[i] && b[i] && *b[i] != 0) {
            ratios.push_back(*a[i] / *b[i]);
        }
    }
    if (ratios.empty()) {
        return std::nullopt;
    }
    const auto [min, max] = std::minmax_element(ratios.begin(), ratios.end());
    return Spread{*median(ratios), *min, *max, ratios.size()};
}

}  // namespace bmoe::bench
