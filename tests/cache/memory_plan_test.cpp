#include "cache/memory_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cache/slot_pool.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

const MemoryItems kItems{960 * kMiB, 96 * kMiB, 300 * kMiB, 20 * kMiB, 60 * kMiB};
constexpr uint64_t kItemBytes = 1436 * kMiB;

Geometry large() { return test::uniform(48, 128, 8, {900'000, 900'000, 1'200'000}); }

TEST(MemoryPlan, AddsUpAndReadsSo) {
    const MemoryPlan plan = plan_fixed(kItems, 4000 * kMiB);
    EXPECT_EQ(plan.total(), kItemBytes + 4000 * kMiB);
    EXPECT_EQ(plan.describe(),
              "dense 960 MiB + KV 96 MiB + compute 300 MiB + staging 20 MiB + other 60 MiB + expert slots 4000 MiB = "
              "5436 MiB");
}

TEST(MemoryPlan, RoundsItemsUpSoThatTheLineAddsUp) {
    EXPECT_EQ(plan_fixed({1, 1, 1, 0, kMiB + 1}, 1).describe(),
              "dense 1 MiB + KV 1 MiB + compute 1 MiB + staging 0 MiB + other 2 MiB + expert slots 1 MiB = 6 MiB");
}

TEST(MemoryPlan, AutoGivesTheSlotsWhatIsLeftBesideASmallReserve) {
    const uint64_t free = 6000 * kMiB;
    const MemoryPlan plan = plan_auto(kItems, large(), free);
    EXPECT_EQ(plan.slots, free - kItemBytes - 64 * kMiB - free / 50);
    EXPECT_LT(plan.total(), free);
}

TEST(MemoryPlan, AutoTakesNoMoreThanAllExpertsNeed) {
    EXPECT_EQ(plan_auto(kItems, large(), 100'000 * kMiB).slots, SlotPool::whole_budget(large()));
}

TEST(MemoryPlan, AutoDoesWithoutACacheThatWouldBeTooSmall) {
    const uint64_t smallest = SlotPool::minimum_budget(large());
    uint64_t with = 0, without = 0;
    for (uint64_t free = kItemBytes; free < kItemBytes + 400 * kMiB; free += kMiB / 4) {
        const uint64_t slots = plan_auto(kItems, large(), free).slots;
        ASSERT_TRUE(slots == 0 || slots >= smallest);
        ++(slots == 0 ? without : with);
    }
    EXPECT_GT(with, 0u);
    EXPECT_GT(without, 0u);
}

TEST(MemoryPlan, AutoStaysBelowTheCeilingAndHasTheFloorOrNoCache) {
    const uint64_t free = 6000 * kMiB;
    const uint64_t left = plan_auto(kItems, large(), free).slots;
    EXPECT_EQ(plan_auto(kItems, large(), free, {.ceiling = 2000 * kMiB}).slots, 2000 * kMiB);
    EXPECT_EQ(plan_auto(kItems, large(), free, {.ceiling = 20'000 * kMiB}).slots, left);
    EXPECT_EQ(plan_auto(kItems, large(), free, {.floor = left}).slots, left);
    EXPECT_EQ(plan_auto(kItems, large(), free, {.floor = left + 1}).slots, 0u);
    // A ceiling below the smallest cache leaves none.
    EXPECT_EQ(plan_auto(kItems, large(), free, {.ceiling = SlotPool::minimum_budget(large()) - 1}).slots, 0u);
}

TEST(MemoryPlan, AFloorIsMetByRoomForAllExperts) {
    EXPECT_EQ(plan_auto(kItems, large(), 100'000 * kMiB, {.floor = 90'000 * kMiB}).slots,
              SlotPool::whole_budget(large()));
}

TEST(MemoryPlan, TheLeastMemoryForAnAmountHasItBesideTheReserveAndNoByteMore) {
    for (const uint64_t bytes : {uint64_t{1}, 63 * kMiB, kItemBytes, 9000 * kMiB + 12345}) {
        const uint64_t least = with_reserve(bytes);
        EXPECT_GE(least - reserve(least), bytes);
        EXPECT_LT(least - 1 - reserve(least - 1), bytes);
    }
    const uint64_t wanted = 3000 * kMiB;
    const uint64_t least = with_reserve(kItemBytes + wanted);
    EXPECT_EQ(plan_auto(kItems, large(), least, {.floor = wanted}).slots, wanted);
    EXPECT_EQ(plan_auto(kItems, large(), least - 1, {.floor = wanted}).slots, 0u);
}

TEST(MemoryPlan, SaysWhatAResidentModelTakes) {
    MemoryPlan plan = plan_fixed({960 * kMiB, 96 * kMiB, 300 * kMiB, 0, 60 * kMiB}, 0);
    plan.experts = 16'740 * kMiB;
    EXPECT_EQ(plan.total(), 18'156 * kMiB);
    EXPECT_EQ(plan.describe(),
              "dense 960 MiB + KV 96 MiB + compute 300 MiB + staging 0 MiB + other 60 MiB + experts 16740 MiB = "
              "18156 MiB");
}

TEST(MemoryPlan, AutoRefusesAModelThatDoesNotFitWithTheItems) {
    EXPECT_NO_THROW(plan_auto(kItems, large(), kItemBytes));
    try {
        plan_auto(kItems, large(), kItemBytes - 1);
        FAIL() << "a plan beyond the free memory was made";
    } catch (const Error &error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("1435 MiB of free memory"), std::string::npos) << text;
        EXPECT_NE(text.find("dense 960 MiB + KV 96 MiB"), std::string::npos) << text;
    }
}

}  // namespace
}  // namespace bmoe::cache
