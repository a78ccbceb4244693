#include "cache/ubatch_choice.h"

#include <gtest/gtest.h>

#include "base/mib.h"

namespace bmoe::cache {
namespace {

constexpr uint64_t kDense = 1000 * kMiB;

// A third of a MiB of compute buffers for each token.
MemoryItems items_for(uint32_t n_ubatch) {
    MemoryItems items;
    items.dense = kDense;
    items.compute = n_ubatch * kMiB / 3;
    return items;
}

// Slots take what is left, up to `most`.
UbatchChoice choose_auto(uint64_t limit, uint64_t most, uint32_t n_ctx = 4096) {
    const auto plan_of = [&](uint32_t n_ubatch) {
        MemoryPlan plan{items_for(n_ubatch), 0};
        plan.slots = std::min(most, limit - std::min(limit, plan.total()));
        return plan;
    };
    return choose_ubatch(plan_of, limit, n_ctx, false);
}

UbatchChoice choose_fixed(uint64_t limit, uint64_t slots) {
    return choose_ubatch([&](uint32_t n_ubatch) { return MemoryPlan{items_for(n_ubatch), slots}; }, limit, 4096, true);
}

TEST(UbatchChoice, IsTheUsualOneWhereMoreWouldCostTheCache) {
    const UbatchChoice choice = choose_auto(6000 * kMiB, 17'000 * kMiB);
    EXPECT_EQ(choice.n_ubatch, kUsualUbatch);
    EXPECT_EQ(choice.plan.total(), 6000 * kMiB);
}

TEST(UbatchChoice, GrowsWhereTheCacheHasAllItCanUse) {
    const UbatchChoice choice = choose_auto(64'000 * kMiB, 17'000 * kMiB);
    EXPECT_EQ(choice.n_ubatch, kLargestUbatch);
    EXPECT_EQ(choice.plan.slots, 17'000 * kMiB);
    EXPECT_EQ(choice.plan.items.compute, items_for(kLargestUbatch).compute);
}

TEST(UbatchChoice, IsNotLargerThanTheContext) {
    EXPECT_EQ(choose_auto(64'000 * kMiB, 17'000 * kMiB, 1500).n_ubatch, 1024u);
    EXPECT_EQ(choose_auto(64'000 * kMiB, 17'000 * kMiB, 100).n_ubatch, kUsualUbatch);
    EXPECT_EQ(choose_auto(64'000 * kMiB, 17'000 * kMiB, 0).n_ubatch, kLargestUbatch);
}

TEST(UbatchChoice, ShrinksUntilThereIsRoomForACache) {
    EXPECT_EQ(choose_auto(kDense + items_for(200).compute, 17'000 * kMiB).n_ubatch, 128u);
    EXPECT_EQ(choose_auto(kDense, 17'000 * kMiB).n_ubatch, kSmallestUbatch);
}

TEST(UbatchChoice, ShrinksUntilAFixedCacheFits) {
    EXPECT_EQ(choose_fixed(kDense + 500 * kMiB + items_for(300).compute, 500 * kMiB).n_ubatch, 256u);
    EXPECT_EQ(choose_fixed(kDense + 500 * kMiB + items_for(600).compute, 500 * kMiB).n_ubatch, kUsualUbatch);
}

TEST(UbatchChoice, DoesNotShrinkForACacheThatCannotBe) {
    const auto no_slots = [](uint32_t n_ubatch) { return MemoryPlan{items_for(n_ubatch), 0}; };
    EXPECT_EQ(choose_ubatch(no_slots, kDense + items_for(600).compute, 4096, false).n_ubatch, kUsualUbatch);
    EXPECT_EQ(choose_ubatch(no_slots, kDense + items_for(200).compute, 4096, false).n_ubatch, kSmallestUbatch);
}

// What a fixed cache leaves is not the ubatch's to take.
TEST(UbatchChoice, GrowsBesideAFixedCacheOnlyIfThatIsMuchLarger) {
    EXPECT_EQ(choose_fixed(64'000 * kMiB, 4'000 * kMiB).n_ubatch, kUsualUbatch);
    EXPECT_EQ(choose_fixed(64'000 * kMiB, 20'000 * kMiB).n_ubatch, 1024u);
}

// A fixed plan without a cache is what was asked for.
TEST(UbatchChoice, DoesNotShrinkForACacheThatNobodyWants) {
    EXPECT_EQ(choose_fixed(64'000 * kMiB, 0).n_ubatch, kUsualUbatch);
}

}  // namespace
}  // namespace bmoe::cache
