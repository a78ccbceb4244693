#include <gtest/gtest.h>

#include <algorithm>

#include "bench/statistics.h"

namespace bmoe::bench {
namespace {

using Values = std::vector<std::optional<double>>;

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
    EXPECT_EQ(median({}), std::nullopt);
    EXPECT_EQ(median({5}), 5);
    EXPECT_EQ(median({9, 1, 5}), 5);
    EXPECT_EQ(median({9, 1, 5, 2}), 3.5);
}

TEST(FirstTokens, AreHeldAgainstTheStepsAfterThe32nd) {
    std::vector<double> steps(40, 100.0);
    std::fill_n(steps.begin(), 8, 3.0);
    steps[0] = 11.0;
    std::fill(steps.begin() + 32, steps.end(), 2.0);
    EXPECT_EQ(first_tokens(steps).seconds, 4.0);
    EXPECT_EQ(first_tokens(steps).ratio, 2.0);
}

TEST(FirstTokens, AreNotMeasuredWithFewSteps) {
    const std::vector<double> steps(40, 1.0);
    const std::span<const double> all(steps);
    EXPECT_EQ(first_tokens(all.first(39)).seconds, 1.0);
    EXPECT_EQ(first_tokens(all.first(39)).ratio, std::nullopt);
    EXPECT_EQ(first_tokens(all.first(7)).seconds, std::nullopt);
    EXPECT_EQ(first_tokens({}).seconds, std::nullopt);
}

TEST(RatioOfPairs, IsTakenWithinPairs) {
    // The machine became four times as slow; the ratios do not see it.
    const Values a = {40.0, 20.0, 10.0};
    const Values b = {20.0, 10.0, 4.0};
    const auto ratio = ratio_of_pairs(a, b);
    ASSERT_TRUE(ratio);
    EXPECT_EQ(ratio->median, 2);
    EXPECT_EQ(ratio->min, 2);
    EXPECT_EQ(ratio->max, 2.5);
    EXPECT_EQ(ratio->pairs, 3U);
}

TEST(RatioOfPairs, LeavesOutPairsThatWereNotMeasured) {
    const Values a = {1.0, std::nullopt, 6.0, 8.0, 9.0};
    const Values b = {std::nullopt, 2.0, 2.0, 0.0};
    const auto ratio = ratio_of_pairs(a, b);
    ASSERT_TRUE(ratio);
    EXPECT_EQ(ratio->median, 3);
    EXPECT_EQ(ratio->pairs, 1U);
    EXPECT_FALSE(ratio_of_pairs(Values{std::nullopt}, Values{1.0}));
    EXPECT_FALSE(ratio_of_pairs({}, {}));
}

}  // namespace
}  // namespace bmoe::bench
