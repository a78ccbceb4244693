#include "bench/statistics.h"

#include <algorithm>
#include <numeric>

namespace bmoe::bench {

std::optional<double> median(std::vector<double> values) {
    if (values.empty()) {
        return std::nullopt;
    }
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

FirstTokens first_tokens(std::span<const double> step_seconds) {
    constexpr size_t kFirst = 8;
    constexpr size_t kSettled = 32;  // steps after which a cold cache has learned most of what it will
    constexpr size_t kEnough = 40;
    FirstTokens result;
    if (step_seconds.size() < kFirst) {
        return result;
    }
    const auto first = step_seconds.first(kFirst);
    result.seconds = std::accumulate(first.begin(), first.end(), 0.0) / kFirst;
    if (step_seconds.size() >= kEnough) {
        const auto settled = step_seconds.subspan(kSettled);
        const double later = *median({settled.begin(), settled.end()});
        result.ratio = later > 0 ? std::optional(*result.seconds / later) : std::nullopt;
    }
    return result;
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
