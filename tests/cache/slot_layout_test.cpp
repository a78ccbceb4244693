#include "cache/slot_layout.h"

#include <gtest/gtest.h>

#include "cache/arena.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

// Four layers of small experts and two of large ones.
Geometry mixed() {
    Geometry geometry;
    for (int i = 0; i < 6; ++i) {
        geometry.layers.push_back(
            {64, i == 0 ? 6u : 4u,
             i % 3 == 2 ? std::vector<uint64_t>{300'000, 500'000} : std::vector<uint64_t>{100'000, 100'000}});
    }
    return geometry;
}

TEST(SlotLayout, ASliceHasRoomForItsBlocksAtAnyOffset) {
    for (uint64_t bytes : {1u, 511u, 512u, 513u, 4095u, 4096u, 4097u, 1'000'000u}) {
        for (uint32_t block : {512u, 4096u}) {
            for (uint64_t offset = 0; offset < block; ++offset) {
                const uint64_t rounded_out = (offset + bytes + block - 1) / block * block;
                ASSERT_LE(rounded_out, slice_room(bytes, block)) << bytes << " at " << offset;
            }
        }
    }
}

TEST(SlotLayout, GroupsLayersBySliceSizes) {
    const SlotLayout layout(mixed());
    EXPECT_EQ(layout.class_of_layers(), (std::vector<uint32_t>{0, 0, 1, 0, 0, 1}));
    ASSERT_EQ(layout.classes().size(), 2u);
    EXPECT_EQ(layout.classes()[0].experts, 256u);
    EXPECT_EQ(layout.classes()[1].experts, 128u);
    EXPECT_EQ(layout.classes()[0].fewest, 6u) << "the largest top-k of the class's layers";
    EXPECT_EQ(layout.classes()[1].fewest, 4u);
}

TEST(SlotLayout, GivesEveryClassTheSameShare) {
    SlotLayout layout(mixed());
    ASSERT_TRUE(layout.divide(layout.whole_bytes() / 2));
    EXPECT_NEAR(static_cast<double>(layout.classes()[0].slots), 128.0, 5.0);
    EXPECT_NEAR(static_cast<double>(layout.classes()[1].slots), 64.0, 2.0);
}

TEST(SlotLayout, NeverExceedsTheBudgetAndWastesLessThanASlot) {
    SlotLayout layout(mixed());
    uint64_t largest = 0;
    for (const SizeClass &c : layout.classes()) largest = std::max(largest, c.slot_bytes);
    for (uint64_t budget = layout.smallest_bytes(); budget < layout.whole_bytes() + 3'000'000; budget += 777'777) {
        ASSERT_TRUE(layout.divide(budget));
        ASSERT_LE(layout.slot_bytes(), budget);
        uint64_t slots = 0;
        for (const SizeClass &c : layout.classes()) {
            ASSERT_GE(c.slots, c.fewest);
            ASSERT_LE(c.slots, c.experts);
            slots += c.slots;
        }
        if (slots < 384) {
            ASSERT_LT(budget - layout.slot_bytes(), largest + Arena::page_size()) << budget;
        }
    }
}

TEST(SlotLayout, ASmallClassKeepsItsTopK) {
    Geometry geometry = test::uniform(20, 128, 4, {1'000'000});
    geometry.layers.push_back({16, 8, {50'000}});
    SlotLayout layout(geometry);
    ASSERT_TRUE(layout.divide(layout.smallest_bytes() + 20'000'000));
    EXPECT_GE(layout.classes()[1].slots, 8u);
    EXPECT_LE(layout.classes()[1].slots, 16u);
}

TEST(SlotLayout, TheSmallestBudgetIsExact) {
    SlotLayout layout(mixed());
    const uint64_t smallest = layout.smallest_bytes();
    EXPECT_EQ(smallest % Arena::page_size(), 0u);
    EXPECT_FALSE(layout.divide(smallest - 1));
    ASSERT_TRUE(layout.divide(smallest));
    EXPECT_EQ(layout.slot_bytes(), smallest);
    EXPECT_EQ(layout.classes()[0].slots, 6u);
    EXPECT_EQ(layout.classes()[1].slots, 4u);
}

TEST(SlotLayout, TheWholeBudgetIsExact) {
    SlotLayout layout(mixed());
    const uint64_t whole = layout.whole_bytes();
    ASSERT_TRUE(layout.divide(whole));
    EXPECT_EQ(layout.classes()[0].slots + layout.classes()[1].slots, 384u);
    ASSERT_TRUE(layout.divide(whole - 1));
    EXPECT_LT(layout.classes()[0].slots + layout.classes()[1].slots, 384u);
    ASSERT_TRUE(layout.divide(whole * 3));
    EXPECT_EQ(layout.slot_bytes(), whole);
}

TEST(SlotLayout, TopKOfAllExpertsNeedsNoMoreThanThereAre) {
    SlotLayout layout(test::uniform(1, 4, 9, {1000}));
    EXPECT_EQ(layout.classes()[0].fewest, 4u);
    EXPECT_EQ(layout.smallest_bytes(), layout.whole_bytes());
}

}  // namespace
}  // namespace bmoe::cache
