#include "cache/expert_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

// 2 layers of 8 experts, room for `slots`.
Geometry shape() { return test::uniform(2, 8, 2, {10'000, 10'000}); }
uint64_t room_for(uint64_t slots) { return slots * 2 * (12'288 + 4096); }

class ExpertCacheTest : public ::testing::TestWithParam<PolicyKind> {
  protected:
    static void visit(ExpertCache &cache, uint16_t layer, const std::vector<int32_t> &experts,
                      Phase phase = Phase::kDecode) {
        cache.visit({layer, 1, static_cast<uint32_t>(experts.size()), experts, {}, phase});
    }

    // A whole visit: true for each expert that was a hit.
    static std::vector<bool> run(ExpertCache &cache, uint16_t layer, const std::vector<int32_t> &experts,
                                 Phase phase = Phase::kDecode) {
        visit(cache, layer, experts, phase);
        std::vector<Slot *> slots;
        std::vector<bool> hits;
        for (int32_t e : experts) {
            slots.push_back(cache.find_and_pin({layer, static_cast<uint16_t>(e)}));
            hits.push_back(slots.back() != nullptr);
        }
        for (size_t i = 0; i < experts.size(); ++i) {
            if (slots[i] == nullptr) slots[i] = cache.admit({layer, static_cast<uint16_t>(experts[i])}, phase);
        }
        for (Slot *slot : slots) {
            if (slot != nullptr) cache.unpin(slot);
        }
        return hits;
    }
};

TEST_P(ExpertCacheTest, FindsWhatWasAdmitted) {
    ExpertCache cache(shape(), room_for(6), GetParam());
    EXPECT_EQ(run(cache, 0, {3, 4}), (std::vector<bool>{false, false}));
    EXPECT_EQ(run(cache, 1, {3, 4}), (std::vector<bool>{false, false}));
    EXPECT_EQ(run(cache, 0, {4, 5}), (std::vector<bool>{true, false}));
    EXPECT_TRUE(cache.resident({0, 3}));
    EXPECT_FALSE(cache.resident({0, 7}));
    EXPECT_EQ(cache.resident_count(), 5u);
    EXPECT_EQ(cache.counters().hits, 1u);
    EXPECT_EQ(cache.counters().misses, 5u);
    EXPECT_EQ(cache.counters().admissions, 5u);
    EXPECT_EQ(cache.counters().evictions, 0u);
}

TEST_P(ExpertCacheTest, AnAdmittedSlotIsEmptyAndKnowsItsExpert) {
    ExpertCache cache(shape(), room_for(2), GetParam());
    for (int32_t e : {1, 2, 5}) {
        visit(cache, 1, {e, 0});
        Slot *slot = cache.admit({1, static_cast<uint16_t>(e)}, Phase::kDecode);
        ASSERT_NE(slot, nullptr);
        EXPECT_EQ(slot->id, (ExpertId{1, static_cast<uint16_t>(e)}));
        for (Slice &slice : slot->slices) {
            EXPECT_EQ(slice.state.load(), SliceState::kEmpty);
            EXPECT_EQ(slice.data, nullptr);
            slice.data = slice.room;
            slice.state = SliceState::kReady;
        }
        cache.unpin(slot);
    }
    EXPECT_EQ(cache.counters().evictions, 1u);
    EXPECT_EQ(cache.resident_count(), 2u);
}

TEST_P(ExpertCacheTest, NeverEvictsWhatIsPinned) {
    ExpertCache cache(shape(), room_for(3), GetParam());
    visit(cache, 0, {0, 1});
    Slot *first = cache.admit({0, 0}, Phase::kDecode);
    Slot *second = cache.admit({0, 1}, Phase::kDecode);
    visit(cache, 1, {0, 1});
    Slot *third = cache.admit({1, 0}, Phase::kDecode);
    EXPECT_EQ(cache.admit({1, 1}, Phase::kDecode), nullptr) << "all slots are pinned";
    cache.unpin(second);
    EXPECT_EQ(cache.admit({1, 1}, Phase::kDecode), second);
    EXPECT_FALSE(cache.resident({0, 1}));
    EXPECT_TRUE(cache.resident({0, 0}));
    EXPECT_TRUE(cache.resident({1, 0}));
    cache.unpin(first);
    cache.unpin(third);
}

TEST_P(ExpertCacheTest, AHitIsPinnedAsOftenAsItWasFound) {
    ExpertCache cache(shape(), room_for(2), GetParam());
    visit(cache, 0, {0, 1});
    Slot *slot = cache.admit({0, 0}, Phase::kDecode);
    Slot *other = cache.admit({0, 1}, Phase::kDecode);
    EXPECT_EQ(cache.find_and_pin({0, 0}), slot);
    cache.unpin(slot);
    EXPECT_EQ(cache.admit({0, 2}, Phase::kDecode), nullptr);
    cache.unpin(slot);
    EXPECT_EQ(cache.admit({0, 2}, Phase::kDecode), slot);
    cache.unpin(slot);
    cache.unpin(other);
}

TEST_P(ExpertCacheTest, DiscardForgetsTheExpertAndFreesTheSlot) {
    ExpertCache cache(shape(), room_for(2), GetParam());
    visit(cache, 0, {0, 1});
    Slot *bad = cache.admit({0, 0}, Phase::kDecode);
    Slot *good = cache.admit({0, 1}, Phase::kDecode);
    bad->slices[1].state = SliceState::kFailed;
    cache.discard(bad);
    EXPECT_FALSE(cache.resident({0, 0}));
    EXPECT_EQ(cache.resident_count(), 1u);
    EXPECT_EQ(cache.find_and_pin({0, 0}), nullptr);
    Slot *again = cache.admit({0, 0}, Phase::kDecode);
    EXPECT_EQ(again, bad);
    EXPECT_EQ(again->slices[1].state.load(), SliceState::kEmpty);
    EXPECT_EQ(cache.counters().evictions, 0u);
    cache.unpin(again);
    cache.unpin(good);
}

TEST_P(ExpertCacheTest, WithoutABudgetNothingIsResident) {
    ExpertCache cache(shape(), 0, GetParam());
    EXPECT_EQ(run(cache, 0, {1, 2}), (std::vector<bool>{false, false}));
    EXPECT_EQ(run(cache, 0, {1, 2}, Phase::kPrefill), (std::vector<bool>{false, false}));
    cache.prefault_ahead();
    EXPECT_EQ(cache.resident_count(), 0u);
    EXPECT_EQ(cache.counters().misses, 4u);
    EXPECT_EQ(cache.usage().mapped_bytes, 0u);
    EXPECT_EQ(cache.policy(), nullptr);
}

TEST_P(ExpertCacheTest, ATooSmallBudgetIsRefused) {
    EXPECT_THROW(ExpertCache(shape(), room_for(2) - 1, GetParam()), Error);
}

TEST_P(ExpertCacheTest, APromptFillsFreeSlots) {
    ExpertCache cache(shape(), room_for(4), GetParam());
    run(cache, 0, {0, 1}, Phase::kPrefill);
    run(cache, 1, {0, 1}, Phase::kPrefill);
    EXPECT_EQ(cache.resident_count(), 4u);
}

INSTANTIATE_TEST_SUITE_P(Policies, ExpertCacheTest,
                         ::testing::Values(PolicyKind::kLru, PolicyKind::kReap, PolicyKind::kReapLite),
                         [](const auto &kind) {
                             return kind.param == PolicyKind::kLru    ? "Lru"
                                    : kind.param == PolicyKind::kReap ? "Reap"
                                                                      : "ReapLite";
                         });

// 6 slots, of which 2 are kept free for guesses.
class ExpertCacheGuessTest : public ExpertCacheTest {
  protected:
    ExpertCacheGuessTest() : cache_(shape(), room_for(6), PolicyKind::kReap) { cache_.reserve_for_guesses(2); }
    ExpertCache cache_;
};

TEST_F(ExpertCacheGuessTest, AdmissionsAndWarmingLeaveTheirSlots) {
    run(cache_, 0, {0, 1});
    run(cache_, 1, {0, 1});
    EXPECT_EQ(cache_.counters().evictions, 0u);
    EXPECT_EQ(cache_.reserve({1, 5}), nullptr);
    run(cache_, 0, {2, 3});
    EXPECT_EQ(cache_.resident_count(), 4u);
    EXPECT_EQ(cache_.counters().evictions, 2u);
    EXPECT_NE(cache_.reserve_guess({1, 5}), nullptr);
    EXPECT_NE(cache_.reserve_guess({1, 6}), nullptr);
    EXPECT_EQ(cache_.reserve_guess({1, 7}), nullptr);
}

TEST_F(ExpertCacheGuessTest, AnAdoptedGuessIsResidentAndAVictimMakesUpForIt) {
    run(cache_, 0, {0, 1});
    run(cache_, 1, {0, 1});
    Slot *guess = cache_.reserve_guess({1, 5});
    ASSERT_NE(guess, nullptr);
    EXPECT_FALSE(cache_.resident({1, 5}));
    visit(cache_, 1, {5, 6});
    cache_.adopt(guess);
    EXPECT_TRUE(cache_.resident({1, 5}));
    EXPECT_EQ(cache_.resident_count(), 4u);
    EXPECT_EQ(cache_.counters().evictions, 1u);
    cache_.unpin(guess);
    EXPECT_EQ(cache_.find_and_pin({1, 5}), guess);
}

TEST_F(ExpertCacheGuessTest, AWrongGuessGoesBackAndEvictsNothing) {
    run(cache_, 0, {0, 1});
    run(cache_, 1, {0, 1});
    cache_.give_back(cache_.reserve_guess({1, 5}));
    EXPECT_EQ(cache_.resident_count(), 4u);
    EXPECT_EQ(cache_.counters().evictions, 0u);
    EXPECT_NE(cache_.reserve_guess({0, 7}), nullptr);
}

TEST_F(ExpertCacheGuessTest, ASmallOrAWholeCacheKeepsNone) {
    ExpertCache small(shape(), room_for(2), PolicyKind::kReap);
    small.reserve_for_guesses(2);
    run(small, 0, {0, 1});
    EXPECT_EQ(small.resident_count(), 2u);
    ExpertCache whole(shape(), room_for(16), PolicyKind::kReap);
    whole.reserve_for_guesses(2);
    for (uint16_t layer = 0; layer < 2; ++layer) {
        for (int32_t e = 0; e < 8; e += 2) run(whole, layer, {e, e + 1});
    }
    EXPECT_EQ(whole.resident_count(), 16u);
}

TEST(ExpertCacheWarmingTest, AReservedSlotIsResidentOncePublished) {
    ExpertCache cache(shape(), room_for(2), PolicyKind::kReap);
    std::vector<float> frequencies(16);
    frequencies[8 + 5] = 0.5F;
    cache.start_from(frequencies);
    Slot *slot = cache.reserve({1, 5});
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->id, (ExpertId{1, 5}));
    for (const Slice &slice : slot->slices) EXPECT_EQ(slice.state.load(), SliceState::kEmpty);
    EXPECT_FALSE(cache.resident({1, 5}));
    cache.publish(slot);
    EXPECT_TRUE(cache.resident({1, 5}));
    EXPECT_EQ(cache.resident_count(), 1U);
    EXPECT_EQ(cache.resident_bytes(), 20'000U);
    EXPECT_EQ(cache.find_and_pin({1, 5}), slot);
    cache.unpin(slot);
}

TEST(ExpertCacheWarmingTest, TakesFreeSlotsOnlyAndGivesThemBack) {
    ExpertCache cache(shape(), room_for(2), PolicyKind::kReap);
    Slot *first = cache.reserve({0, 1});
    Slot *second = cache.reserve({1, 5});
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(cache.reserve({0, 2}), nullptr);
    cache.publish(first);
    EXPECT_EQ(cache.reserve({0, 2}), nullptr) << "nothing is evicted";
    cache.give_back(second);
    EXPECT_FALSE(cache.resident({1, 5}));
    EXPECT_EQ(cache.reserve({0, 2}), second);
}

TEST(ExpertCacheWarmingTest, WithoutACacheThereIsNoSlot) {
    ExpertCache cache(shape(), 0, PolicyKind::kReap);
    cache.start_from(std::vector<float>(16, 0.5F));
    EXPECT_EQ(cache.reserve({0, 1}), nullptr);
}

TEST(ExpertCachePrefillTest, UnderReapAPromptReplacesOnlyWhatIsWorthLess) {
    ExpertCache cache(shape(), room_for(2), PolicyKind::kReap);
    const auto decode = [&](const std::vector<int32_t> &experts) {
        cache.visit({0, 1, 2, experts, {}, Phase::kDecode});
        for (int32_t e : experts) {
            Slot *slot = cache.find_and_pin({0, static_cast<uint16_t>(e)});
            if (slot == nullptr) slot = cache.admit({0, static_cast<uint16_t>(e)}, Phase::kDecode);
            cache.unpin(slot);
        }
    };
    for (int i = 0; i < 40; ++i) decode({0, 1});
    // Two tokens pass by: both old experts stay worth more than one that was seen once.
    const std::vector<int32_t> once{5, 0, 0, 1};
    cache.visit({0, 2, 2, once, {}, Phase::kPrefill});
    EXPECT_EQ(cache.admit({0, 5}, Phase::kPrefill), nullptr);
    // A prompt that uses other experts all the time.
    std::vector<int32_t> often;
    for (int i = 0; i < 200; ++i) often.insert(often.end(), {6, 7});
    cache.visit({0, 200, 2, often, {}, Phase::kPrefill});
    Slot *slot = cache.admit({0, 6}, Phase::kPrefill);
    ASSERT_NE(slot, nullptr);
    cache.unpin(slot);
    EXPECT_EQ(cache.counters().evictions, 1u);
}

TEST(ExpertCachePrefillTest, UnderLruAPromptReplacesNothing) {
    ExpertCache cache(shape(), room_for(2), PolicyKind::kLru);
    const std::vector<int32_t> experts{0, 1, 2, 3};
    cache.visit({0, 2, 2, experts, {}, Phase::kPrefill});
    for (uint16_t e : {0, 1}) cache.unpin(cache.admit({0, e}, Phase::kPrefill));
    EXPECT_EQ(cache.admit({0, 2}, Phase::kPrefill), nullptr);
    EXPECT_NE(cache.admit({0, 2}, Phase::kDecode), nullptr);
}

TEST(ExpertCacheClassesTest, AMissEvictsFromItsOwnSizeClassOnly) {
    Geometry geometry = shape();
    geometry.layers[1].slice_bytes = {20'000, 10'000};
    ExpertCache cache(geometry, SlotPool::minimum_budget(geometry), PolicyKind::kReap);
    const std::vector<int32_t> pair{0, 1};
    for (uint16_t layer : {0, 1}) {
        cache.visit({layer, 1, 2, pair, {}, Phase::kDecode});
        for (uint16_t e : {0, 1}) cache.unpin(cache.admit({layer, e}, Phase::kDecode));
    }
    const std::vector<int32_t> next{2, 3};
    cache.visit({0, 1, 2, next, {}, Phase::kDecode});
    for (uint16_t e : {2, 3}) cache.unpin(cache.admit({0, e}, Phase::kDecode));
    EXPECT_TRUE(cache.resident({1, 0}));
    EXPECT_TRUE(cache.resident({1, 1}));
    EXPECT_FALSE(cache.resident({0, 0}));
    EXPECT_FALSE(cache.resident({0, 1}));
}

}  // namespace
}  // namespace bmoe::cache
