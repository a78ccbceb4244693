#include "cache/transition_table.h"

#include <gtest/gtest.h>

#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

using Ids = std::vector<uint16_t>;

std::vector<float> predict(const TransitionTable &table, size_t layer, const Ids &selected,
                           const std::vector<float> &weights, const std::vector<float> &frequency) {
    std::vector<float> expected(frequency.size());
    table.predict(layer, selected, weights, frequency.data(), expected.data());
    return expected;
}

TEST(TransitionTable, ExpectsTheFrequencyWhereNothingWasSeen) {
    const TransitionTable table(test::uniform(2, 4, 2, {100}));
    const auto expected = predict(table, 1, {0, 3}, {0.5f, 0.5f}, {0.1f, 0.2f, 0.0f, 0.4f});
    EXPECT_NEAR(expected[0], 0.101f, 1e-6f);
    EXPECT_NEAR(expected[2], 0.001f, 1e-6f);
    EXPECT_NEAR(expected[3], 0.401f, 1e-6f);
}

TEST(TransitionTable, MixesWhatFollowedByWeight) {
    TransitionTable table(test::uniform(2, 4, 2, {100}));
    for (int i = 0; i < 3; ++i) table.learn(1, Ids{0}, Ids{1, 2});
    table.learn(1, Ids{3}, Ids{2});
    const std::vector<float> frequency{0.1f, 0.2f, 0.3f, 0.4f};
    const auto expected = predict(table, 1, {0, 3}, {0.75f, 0.25f}, frequency);
    for (size_t e = 0; e < 4; ++e) {
        const float after_0 = e == 1 || e == 2 ? 3.0f : 0.0f;
        const float after_3 = e == 2 ? 1.0f : 0.0f;
        const float prior = 6.0f * (frequency[e] + 0.001f);
        EXPECT_NEAR(expected[e], 0.75f * (after_0 + prior) / 9.0f + 0.25f * (after_3 + prior) / 7.0f, 1e-6f) << e;
    }
    EXPECT_NEAR(predict(table, 0, {0}, {1.0f}, frequency)[1], 0.201f, 1e-6f) << "layers are separate";
}

TEST(TransitionTable, KeepsSharesWhenCountsRunFull) {
    TransitionTable table(test::uniform(1, 2, 1, {100}));
    for (int i = 0; i < 200'000; ++i) table.learn(0, Ids{0}, i % 4 == 0 ? Ids{0} : Ids{1});
    const auto expected = predict(table, 0, {0}, {1.0f}, {0.0f, 0.0f});
    EXPECT_NEAR(expected[0], 0.25f, 0.001f);
    EXPECT_NEAR(expected[1], 0.75f, 0.001f);
}

TEST(TransitionTable, BytesCountTwoPerPairOfExperts) {
    EXPECT_EQ(TransitionTable::bytes(test::uniform(48, 128, 8, {100})), 48u * 128 * 128 * 2);
}

}  // namespace
}  // namespace bmoe::cache
