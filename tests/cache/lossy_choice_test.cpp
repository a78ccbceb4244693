#include "cache/lossy_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

namespace bmoe::cache {
namespace {

constexpr Residency kCold = Residency::kCold;
constexpr Residency kComing = Residency::kComing;
constexpr Residency kResident = Residency::kResident;

// Four of eight experts, with weights that sum to 2.
struct Token {
    std::vector<int32_t> experts{3, 6, 1, 4};
    std::vector<float> weights{1.0F, 0.5F, 0.3F, 0.2F};
    std::vector<Residency> residency = std::vector<Residency>(8, kResident);
    std::vector<float> scores{0.02F, 0.15F, 0.01F, 0.5F, 0.1F, 0.08F, 0.25F, 0.04F};

    Forgone choose(const LossyLimits &limits, double allowance = kUnlimited, bool renormalise = false) {
        return choice.choose(experts, weights, residency, scores, limits, allowance, renormalise);
    }
    double sum() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }

    LossyChoice choice;
};

TEST(LossyChoice, DropsColdExpertsBelowTheLimit) {
    Token token;
    token.residency[6] = token.residency[1] = token.residency[4] = kCold;
    const Forgone forgone = token.choose({.drop = 0.7});  // less than 0.175 of the mass: not the 0.25 of expert 6
    EXPECT_EQ(token.experts, (std::vector<int32_t>{3, 6, kDropped, kDropped}));
    EXPECT_EQ(token.weights, (std::vector<float>{1.0F, 0.5F, 0, 0}));
    EXPECT_EQ(forgone.dropped, 2U);
    EXPECT_NEAR(forgone.mass_dropped, 0.25, 1e-6);
    EXPECT_EQ(forgone.substituted, 0U);
    EXPECT_FALSE(forgone.refused);
}

TEST(LossyChoice, NeverDropsWhatIsInMemoryOrComesNorTheHeaviest) {
    Token token;
    token.residency[3] = kCold;
    token.residency[6] = kComing;
    EXPECT_FALSE(token.choose({.drop = 1}).any());
    EXPECT_EQ(token.experts, Token().experts);
    token.weights = {0.25F, 0.25F, 0.25F, 0.25F};
    token.residency.assign(8, kCold);
    EXPECT_EQ(token.choose({.drop = 1}).dropped, 0U) << "none is below the mean";
}

TEST(LossyChoice, ReplacesTheLighterHalfByTheBestThatIsResident) {
    Token token;
    token.residency.assign(8, kCold);
    token.residency[5] = token.residency[7] = kResident;
    token.residency[0] = kComing;
    const Forgone forgone = token.choose({.substitute = 0.3});
    EXPECT_EQ(token.experts, (std::vector<int32_t>{3, 6, 5, 7}));
    EXPECT_NEAR(token.weights[2], 0.3 * 0.08 / 0.15, 1e-6);
    EXPECT_NEAR(token.weights[3], 0.2 * 0.04 / 0.1, 1e-6);
    EXPECT_EQ(forgone.substituted, 2U);
    EXPECT_NEAR(forgone.mass_substituted, 0.15 * (1 - 0.08 / 0.15) + 0.1 * (1 - 0.4), 1e-6);
    EXPECT_EQ(forgone.dropped, 0U);
}

TEST(LossyChoice, ReplacesByNoneThatTheRouterLikesTooLittle) {
    Token token;
    token.residency[1] = token.residency[4] = kCold;  // substitutes of 0.08, then 0.04
    token.choose({.substitute = 0.6});
    EXPECT_EQ(token.experts, (std::vector<int32_t>{3, 6, 1, 5})) << "0.08 / 0.15 is too little, 0.08 / 0.1 is not";
}

TEST(LossyChoice, AboveOneNothingIsReplacedWhateverTheScores) {
    Token token;
    token.residency[1] = kCold;
    token.scores[5] = 9;  // selected by another measure
    EXPECT_FALSE(token.choose({.substitute = 1.01}).any());
    EXPECT_EQ(token.choose({.substitute = 1}).substituted, 1U);
    EXPECT_EQ(token.experts[2], 5);
    EXPECT_EQ(token.weights[2], 0.3F) << "never more than the replaced one's";
}

TEST(LossyChoice, DropsWhatFindsNoSubstitute) {
    Token token;
    token.residency.assign(8, kCold);
    token.residency[3] = token.residency[5] = kResident;
    const Forgone forgone = token.choose({.drop = 0.9, .substitute = 0.5});
    EXPECT_EQ(token.experts, (std::vector<int32_t>{3, 6, 5, kDropped}));
    EXPECT_EQ(forgone.substituted, 1U);
    EXPECT_EQ(forgone.dropped, 1U);
}

TEST(LossyChoice, ReplacesNoneWithoutScores) {
    Token token;
    token.residency[4] = kCold;
    token.scores.clear();
    EXPECT_FALSE(token.choose({.substitute = 0.01}).any());
}

TEST(LossyChoice, StopsAtTheAllowance) {
    Token token;
    token.residency.assign(8, kCold);
    const Forgone forgone = token.choose({.drop = 1}, 0.2);
    EXPECT_EQ(token.experts, (std::vector<int32_t>{3, 6, 1, kDropped})) << "the lightest first, for 0.1; next 0.15";
    EXPECT_TRUE(forgone.refused);
    EXPECT_FALSE(Token().choose({.drop = 1}, 0).refused) << "nothing is cold";
}

TEST(LossyChoice, RenormalisesTheWeightsThatAreLeft) {
    Token token;
    token.residency[4] = kCold;
    token.choose({.drop = 1}, kUnlimited, true);
    EXPECT_NEAR(token.sum(), 2, 1e-6);
    EXPECT_NEAR(token.weights[0] / token.weights[1], 2, 1e-6);
    EXPECT_EQ(token.weights[3], 0);
}

TEST(LossyChoice, LeavesUnusualRoutingsAlone) {
    for (const float bad : {NAN, INFINITY, -0.1F}) {
        Token token;
        token.residency.assign(8, kCold);
        token.weights[2] = bad;
        EXPECT_FALSE(token.choose({.drop = 1}).any());
        EXPECT_FALSE(token.choice.has_replaceable(token.experts, token.weights, token.residency));
    }
    Token twice;
    twice.residency.assign(8, kCold);
    twice.experts[3] = 6;
    EXPECT_FALSE(twice.choose({.drop = 1}).any());
    Token nothing;
    nothing.residency.assign(8, kCold);
    nothing.weights.assign(4, 0);
    EXPECT_FALSE(nothing.choose({.drop = 1}).any());
}

TEST(LossyChoice, HasReplaceableLooksAtTheLighterHalf) {
    Token token;
    const auto has = [&] { return token.choice.has_replaceable(token.experts, token.weights, token.residency); };
    EXPECT_FALSE(has());
    token.residency[3] = token.residency[6] = kCold;
    token.residency[4] = kComing;
    EXPECT_FALSE(has());
    token.residency[4] = kCold;
    EXPECT_TRUE(has());
    token.weights = {0.1F, 0.2F, 0.8F, 0.9F};  // the order of the places does not matter
    token.residency[3] = token.residency[6] = kResident;
    EXPECT_FALSE(has());
}

TEST(LossyChoice, ABatchKeepsWhatOneOfItsTokensNeeds) {
    LossyChoice choice;
    // Expert 1 is light for the first token, and the heaviest of the second; 2 is light for both; the third is unusual.
    const std::vector<int32_t> experts{0, 1, 1, 2, 3, 3};
    const std::vector<float> weights{0.9F, 0.1F, 0.8F, 0.2F, 0.5F, 0.5F};
    std::vector<Residency> residency(4, kCold);
    choice.keep_needed(experts, weights, 2, {.drop = 1}, residency);
    EXPECT_EQ(residency, (std::vector<Residency>{kResident, kResident, kCold, kResident}));
}

// Of random tokens.
class LossyChoiceProperties : public testing::Test {
  protected:
    void draw() {
        const size_t n_expert = 2 + random_() % 30;
        const size_t top_k = 1 + random_() % std::min<size_t>(n_expert, 10);
        std::exponential_distribution<float> exponential;
        scores.resize(n_expert);
        std::generate(scores.begin(), scores.end(), [&] { return exponential(random_); });
        experts.resize(n_expert);
        std::iota(experts.begin(), experts.end(), 0);
        std::sort(experts.begin(), experts.end(), [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
        experts.resize(top_k);
        std::shuffle(experts.begin(), experts.end(), random_);
        weights.clear();
        for (const int32_t expert : experts) {
            weights.push_back(scores[expert] * 1.7F);
        }
        residency.resize(n_expert);
        std::generate(residency.begin(), residency.end(), [&] { return static_cast<Residency>(random_() % 3); });
    }
    double uniform(double most) { return std::uniform_real_distribution<double>(0, most)(random_); }

    std::mt19937 random_{41};
    LossyChoice choice;
    std::vector<int32_t> experts;
    std::vector<float> weights, scores;
    std::vector<Residency> residency;
};

TEST_F(LossyChoiceProperties, NeutralLimitsLeaveEveryByte) {
    for (int i = 0; i < 2000; ++i) {
        draw();
        const std::vector<int32_t> experts_before = experts;
        const std::vector<float> weights_before = weights;
        const LossyLimits limits{.drop = 0, .substitute = i % 2 == 0 ? 0 : 1.5};
        EXPECT_FALSE(choice.choose(experts, weights, residency, scores, limits, kUnlimited, true).any());
        // With nothing to spend, too, whatever the limits.
        const Forgone forgone =
            choice.choose(experts, weights, residency, scores, {.drop = 1, .substitute = 0.999999}, 0, true);
        ASSERT_FALSE(forgone.any());
        ASSERT_EQ(experts, experts_before);
        ASSERT_EQ(std::memcmp(weights.data(), weights_before.data(), weights.size() * sizeof(float)), 0);
    }
}

TEST_F(LossyChoiceProperties, AnyLimitsGiveAUsableRouting) {
    uint32_t dropped = 0;
    uint32_t substituted = 0;
    for (int i = 0; i < 20000; ++i) {
        draw();
        const std::vector<int32_t> old_experts = experts;
        const std::vector<float> old_weights = weights;
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        const auto heaviest = std::max_element(weights.begin(), weights.end()) - weights.begin();
        const LossyLimits limits{.drop = uniform(1), .substitute = uniform(1)};
        const double allowance = i % 2 == 0 ? kUnlimited : uniform(0.3);
        const bool renormalise = i % 3 == 0;
        const Forgone forgone = choice.choose(experts, weights, residency, scores, limits, allowance, renormalise);
        dropped += forgone.dropped;
        substituted += forgone.substituted;

        ASSERT_LE(forgone.mass(), allowance);
        ASSERT_EQ(experts[heaviest], old_experts[heaviest]);
        uint32_t changed = 0;
        for (size_t e = 0; e < experts.size(); ++e) {
            if (experts[e] == kDropped) {
                ASSERT_EQ(residency[old_experts[e]], kCold);
                ASSERT_EQ(weights[e], 0);
                continue;
            }
            ASSERT_EQ(std::count(experts.begin(), experts.end(), experts[e]), 1);
            if (experts[e] != old_experts[e]) {
                ++changed;
                ASSERT_EQ(residency[old_experts[e]], kCold);
                ASSERT_EQ(residency[experts[e]], kResident);
                ASSERT_EQ(std::count(old_experts.begin(), old_experts.end(), experts[e]), 0);
            }
        }
        ASSERT_EQ(changed, forgone.substituted);
        const double left = std::accumulate(weights.begin(), weights.end(), 0.0);
        ASSERT_NEAR(left / sum, renormalise ? 1 : 1 - forgone.mass(), 1e-5);
        if (!forgone.any()) {
            ASSERT_EQ(weights, old_weights);
        }
    }
    EXPECT_GT(dropped, 1000U);
    EXPECT_GT(substituted, 1000U);
}

}  // namespace
}  // namespace bmoe::cache
