#include "cache/lru_policy.h"

#include <gtest/gtest.h>

#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

using test::visit;

class LruPolicyTest : public ::testing::Test {
  protected:
    LruPolicyTest() : policy_(test::uniform(3, 8, 2, {100}), std::vector<uint32_t>{0, 0, 1}) {}

    LruPolicy policy_;
};

TEST_F(LruPolicyTest, HasNoVictimWhenNothingIsResident) { EXPECT_FALSE(policy_.victim(0)); }

TEST_F(LruPolicyTest, EvictsTheLeastRecentlyUsedOfAllLayers) {
    policy_.inserted({0, 1});
    policy_.inserted({1, 5});
    policy_.inserted({0, 2});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 1}));
    visit(policy_, 0, {1, 2});
    EXPECT_EQ(policy_.victim(0), (ExpertId{1, 5}));
    policy_.evicted({1, 5});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 1})) << "within a visit the later ranks are the more recent";
}

TEST_F(LruPolicyTest, KeepsSizeClassesApart) {
    policy_.inserted({2, 0});
    policy_.inserted({0, 0});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 0}));
    EXPECT_EQ(policy_.victim(1), (ExpertId{2, 0}));
}

TEST_F(LruPolicyTest, PassesByPinnedExperts) {
    policy_.inserted({0, 1});
    policy_.inserted({0, 2});
    policy_.pin({0, 1});
    policy_.pin({0, 1});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 2}));
    policy_.pin({0, 2});
    EXPECT_FALSE(policy_.victim(0));
    policy_.unpin({0, 1});
    EXPECT_FALSE(policy_.victim(0)) << "pins count";
    policy_.unpin({0, 1});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 1}));
}

TEST_F(LruPolicyTest, CountsNoFrequencies) {
    policy_.inserted({0, 1});
    policy_.start_from(std::vector<float>(24, 0.5F));
    EXPECT_TRUE(policy_.frequencies().empty());
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 1}));
}

TEST_F(LruPolicyTest, APromptReplacesNothing) {
    policy_.inserted({0, 1});
    EXPECT_FALSE(policy_.prefers({0, 2}, {0, 1}));
}

}  // namespace
}  // namespace bmoe::cache
