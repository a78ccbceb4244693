#include "cache/hazard_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace bmoe::cache {
namespace {

float centre_frequency(int column) { return std::exp2((static_cast<float>(column) + 0.5f) / 1.6f - 9.0f); }

uint8_t cell(uint8_t age, int column) { return static_cast<uint8_t>(HazardTable::row(age) + column); }

TEST(HazardTable, AgesFallIntoNineRows) {
    const int expected[] = {0, 1, 2, 3, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6,
                            7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8};
    ASSERT_EQ(std::size(expected), HazardTable::kOldest + 1u);
    for (uint8_t age = 0; age <= HazardTable::kOldest; ++age) {
        EXPECT_EQ(HazardTable::row(age), expected[age] * HazardTable::kStride) << int{age};
    }
}

TEST(HazardTable, FrequenciesFallIntoFourteenColumns) {
    for (float frequency = 1e-6f; frequency <= 1.0f; frequency *= 1.05f) {
        const double exact = std::floor((std::log2(frequency) + 9.0) * 1.6);
        EXPECT_EQ(HazardTable::column(HazardTable::position(std::log2(frequency))), std::clamp(exact, 0.0, 13.0));
    }
}

TEST(HazardTable, StartsFromTheFrequency) {
    const HazardTable table;
    for (int column = 0; column < HazardTable::kFrequencies; ++column) {
        const float centre = static_cast<float>(column) + 0.5f;
        EXPECT_NEAR(table.at(HazardTable::row(3), centre), std::min(0.9f, centre_frequency(column)), 1e-5f);
        EXPECT_NEAR(table.at(HazardTable::row(0), centre), std::min(0.9f, 1.5f * centre_frequency(column)), 1e-5f);
    }
}

TEST(HazardTable, InterpolatesBetweenCentresAndIsFlatBeyondTheOuterOnes) {
    const HazardTable table;
    const uint8_t row = HazardTable::row(1);
    EXPECT_NEAR(table.at(row, 5.75f), 0.75f * table.at(row, 5.5f) + 0.25f * table.at(row, 6.5f), 1e-6f);
    EXPECT_EQ(table.at(row, -20.0f), table.at(row, 0.5f));
    EXPECT_EQ(table.at(row, 20.0f), table.at(row, 13.5f));
}

TEST(HazardTable, LearnsTheShareOfUse) {
    HazardTable table;
    HazardTable::Counts seen{}, used{};
    seen[cell(2, 4)] = 10;
    used[cell(2, 4)] = 7;
    for (int i = 0; i < 1000; ++i) table.learn(seen, used, 1.0f);
    EXPECT_NEAR(table.at(HazardTable::row(2), 4.5f), 0.7f, 0.01f);
    EXPECT_NEAR(table.at(HazardTable::row(2), 8.5f), centre_frequency(8), 1e-5f) << "other cells are left alone";
}

TEST(HazardTable, WeighsObservations) {
    HazardTable full, third;
    HazardTable::Counts seen{}, used{};
    seen[cell(0, 13)] = 10;
    full.learn(seen, used, 1.0f);
    third.learn(seen, used, 0.3f);
    EXPECT_NEAR(full.at(HazardTable::row(0), 13.5f), 0.9f * 30 / 40, 1e-5f);
    EXPECT_NEAR(third.at(HazardTable::row(0), 13.5f), 0.9f * 30 / 33, 1e-5f);
}

TEST(HazardTable, ForgetsOldObservations) {
    HazardTable table;
    HazardTable::Counts seen{}, used{}, none{};
    seen[cell(1, 1)] = used[cell(1, 1)] = 100;
    for (int i = 0; i < 1000; ++i) table.learn(seen, used, 1.0f);
    for (int i = 0; i < 200; ++i) table.learn(seen, none, 1.0f);  // a fifth of the evidence, but all that is recent
    EXPECT_LT(table.at(HazardTable::row(1), 1.5f), 0.05f);
}

}  // namespace
}  // namespace bmoe::cache
