#include "cache/reap_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

using test::visit;

// REAP as its definition reads: doubles, library functions, nothing cached, everything by expert.
class Definition {
  public:
    Definition(uint32_t layers, uint32_t experts, bool with_transitions)
        : layers_(layers), experts_(experts), with_transitions_(with_transitions), state_(layers) {
        for (Layer &layer : state_) {
            layer.experts.resize(experts);
            layer.follows.assign(experts, std::vector<double>(experts));
            layer.left.assign(experts, 0.0);
        }
        for (int age = 0; age < 9; ++age) {
            for (int column = 0; column < 14; ++column) {
                const double frequency = std::exp2((column + 0.5) / 1.6 - 9.0);
                seen_[age][column] = 30.0;
                used_[age][column] = 30.0 * std::min(0.9, frequency * (age == 0 ? 1.5 : 1.0));
            }
        }
    }

    void visit(uint32_t l, const std::vector<int32_t> &selected, const std::vector<float> &weights,
               double observation) {
        Layer &layer = state_[l];
        const std::set<int32_t> now(selected.begin(), selected.end());
        std::map<std::pair<int, int>, std::pair<double, double>> cells;
        for (uint32_t e = 0; e < experts_; ++e) {
            auto &cell = cells[{age_row(layer, e), column(frequency(layer, e))}];
            cell.first += observation;
            cell.second += now.contains(static_cast<int32_t>(e)) ? observation : 0.0;
        }
        for (int age = 0; age < 9; ++age) {
            for (int c = 0; c < 14; ++c) {
                if (seen_[age][c] > 4000) {
                    seen_[age][c] /= 2;
                    used_[age][c] /= 2;
                }
            }
        }
        for (const auto &[cell, counts] : cells) {
            seen_[cell.first][cell.second] += counts.first;
            used_[cell.first][cell.second] += counts.second;
        }
        for (int32_t a : layer.selected) {
            layer.left[a] += 1;
            for (int32_t b : now) layer.follows[a][b] += 1;
        }
        ++layer.clock;
        for (int32_t e : now) {
            Expert &expert = layer.experts[e];
            expert.frequency = frequency(layer, e) + 1.0 - std::exp2(-1.0 / 32);
            expert.last = layer.clock;
        }
        layer.selected = selected;
        layer.weights = weights;
    }

    double score(uint32_t l, uint32_t e) const {
        const Layer &layer = state_[l];
        const double f = frequency(layer, e);
        const double x = std::clamp((std::log2(f + 1e-6) + 9.0) * 1.6 - 0.5, 0.0, 13.0);
        const int low = static_cast<int>(x);
        const int high = std::min(low + 1, 13);
        const int row = age_row(layer, e);
        const double h =
            (1 - (x - low)) * used_[row][low] / seen_[row][low] + (x - low) * used_[row][high] / seen_[row][high];
        if (!with_transitions_) return h;
        double m = 0.0, total = 0.0;
        for (float w : layer.weights) total += w;
        for (size_t i = 0; i < layer.selected.size(); ++i) {
            const int32_t a = layer.selected[i];
            m += layer.weights[i] / total * (layer.follows[a][e] + 6 * (f + 0.001)) / (layer.left[a] + 6);
        }
        const double floor = static_cast<double>(layer.selected.size()) / (4.0 * experts_);
        const double logit = std::log(h / (1 - h)) + 0.7 * std::log((m + floor) / (f + floor));
        return 1 / (1 + std::exp(-logit));
    }

    // What an eviction right after a visit of `current` compares.
    double worth(uint32_t current, ExpertId id, double score) const {
        const uint32_t distance = id.layer > current ? id.layer - current : id.layer + layers_ - current;
        return score / (1.0 + static_cast<double>(distance) / layers_);
    }

  private:
    struct Expert {
        int64_t last = -1000;
        double frequency = 0;  // as of `last`
    };
    struct Layer {
        int64_t clock = 0;
        std::vector<Expert> experts;
        std::vector<std::vector<double>> follows;
        std::vector<double> left;
        std::vector<int32_t> selected;
        std::vector<float> weights;
    };

    static double frequency(const Layer &layer, uint32_t e) {
        return layer.experts[e].frequency * std::exp2(-static_cast<double>(layer.clock - layer.experts[e].last) / 32);
    }
    static int age_row(const Layer &layer, uint32_t e) {
        const int64_t age = layer.clock - layer.experts[e].last;
        const int64_t first[] = {0, 1, 2, 3, 4, 6, 10, 18, 34};
        int row = 8;
        while (age < first[row]) --row;
        return row;
    }
    static int column(double f) {
        return std::clamp(static_cast<int>(std::floor((std::log2(f + 1e-6) + 9) * 1.6)), 0, 13);
    }

    uint32_t layers_, experts_;
    bool with_transitions_;
    std::vector<Layer> state_;
    double seen_[9][14], used_[9][14];
};

class ReapDefinitionTest : public ::testing::TestWithParam<bool> {};

TEST_P(ReapDefinitionTest, ScoresAndVictimsFollowTheDefinition) {
    constexpr uint32_t kLayers = 5, kExperts = 40, kTopK = 4, kCapacity = 60;
    const Geometry geometry = test::uniform(kLayers, kExperts, kTopK, {100});
    ReapPolicy policy(geometry, std::vector<uint32_t>(kLayers, 0), GetParam());
    Definition definition(kLayers, kExperts, GetParam());
    std::mt19937 random(7);
    std::set<std::pair<uint16_t, uint16_t>> resident;
    double largest_error = 0;
    int evictions = 0;

    for (int token = 0; token < 600; ++token) {
        const Phase phase = token < 50 ? Phase::kPrefill : Phase::kDecode;
        for (uint16_t l = 0; l < kLayers; ++l) {
            std::vector<int32_t> selected;
            std::vector<float> weights;
            while (selected.size() < kTopK) {
                // Squared: some experts are hot. A shift with time: the hot ones change.
                const double u = static_cast<double>(random()) / 4294967296.0;
                const auto e =
                    static_cast<int32_t>((static_cast<uint32_t>(u * u * kExperts) + l * 3 + token / 100) % kExperts);
                if (std::find(selected.begin(), selected.end(), e) != selected.end()) continue;
                selected.push_back(e);
                weights.push_back(0.1f + static_cast<float>(random() % 100));
            }
            policy.visit({l, 1, kTopK, selected, weights, phase});
            definition.visit(l, selected, weights, phase == Phase::kDecode ? 1.0 : 0.3);
            for (uint16_t e = 0; e < kExperts; ++e) {
                largest_error = std::max(largest_error, std::abs(policy.score({l, e}) - definition.score(l, e)));
            }
            for (int32_t e : selected) policy.pin({l, static_cast<uint16_t>(e)});
            for (int32_t e : selected) {
                if (!resident.insert({l, static_cast<uint16_t>(e)}).second) continue;
                policy.inserted({l, static_cast<uint16_t>(e)});
                if (resident.size() <= kCapacity) continue;
                const auto victim = policy.victim(0);
                ASSERT_TRUE(victim);
                ASSERT_TRUE(resident.contains({victim->layer, victim->expert}));
                const double worth = definition.worth(l, *victim, policy.score(*victim));
                for (const auto &[layer, expert] : resident) {
                    const bool pinned =
                        layer == l && std::find(selected.begin(), selected.end(), expert) != selected.end();
                    if (pinned) {
                        ASSERT_NE(*victim, (ExpertId{layer, expert}));
                    } else {
                        ASSERT_GE(definition.worth(l, {layer, expert}, policy.score({layer, expert})), worth - 1e-6);
                    }
                }
                resident.erase({victim->layer, victim->expert});
                policy.evicted(*victim);
                ++evictions;
            }
            for (int32_t e : selected) policy.unpin({l, static_cast<uint16_t>(e)});
        }
    }
    EXPECT_GT(evictions, 1000);
    // Not 0: rounding puts an expert on a cell's edge to the other side now and then.
    EXPECT_LT(largest_error, 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Modes, ReapDefinitionTest, ::testing::Bool(),
                         [](const auto &mode) { return mode.param ? "WithTransitions" : "Lite"; });

class ReapPolicyTest : public ::testing::Test {
  protected:
    ReapPolicyTest() : policy_(test::uniform(3, 8, 2, {100}), std::vector<uint32_t>{0, 0, 1}, true) {}

    ReapPolicy policy_;
};

TEST_F(ReapPolicyTest, AVisitOfManyTokensCountsAsManyVisits) {
    ReapPolicy one_by_one(test::uniform(3, 8, 2, {100}), std::vector<uint32_t>{0, 0, 1}, true);
    const std::vector<int32_t> experts{0, 1, 1, 2, 5, 1, 3, 0};
    const std::vector<float> weights{0.6f, 0.4f, 0.5f, 0.5f, 0.9f, 0.1f, 0.7f, 0.3f};
    policy_.visit({1, 4, 2, experts, weights, Phase::kPrefill});
    for (size_t token = 0; token < 4; ++token) {
        one_by_one.visit({1, 1, 2, std::span(experts).subspan(token * 2, 2), std::span(weights).subspan(token * 2, 2),
                          Phase::kPrefill});
    }
    for (uint16_t e = 0; e < 8; ++e) EXPECT_EQ(policy_.score({1, e}), one_by_one.score({1, e})) << e;
}

TEST_F(ReapPolicyTest, AVisitWithoutTokensChangesNothing) {
    visit(policy_, 0, {1, 2});
    const float before = policy_.score({0, 1});
    policy_.visit({0, 0, 2, {}, {}, Phase::kPrefill});
    EXPECT_EQ(policy_.score({0, 1}), before);
}

TEST_F(ReapPolicyTest, PrefersTheExpertThatIsUsedMore) {
    for (int i = 0; i < 20; ++i) visit(policy_, 0, {1, i % 8 == 1 ? 0 : i % 8});
    EXPECT_TRUE(policy_.prefers({0, 1}, {0, 3}));
    EXPECT_FALSE(policy_.prefers({0, 3}, {0, 1}));
    EXPECT_FALSE(policy_.prefers({0, 1}, {0, 1}));
}

TEST_F(ReapPolicyTest, EvictsTheLayerThatRunsLastAmongEquals) {
    for (int i = 0; i < 2000; ++i) {
        for (uint16_t l : {0, 1}) visit(policy_, l, {1, 2});
    }
    policy_.inserted({0, 5});
    policy_.inserted({1, 5});
    EXPECT_NEAR(policy_.score({0, 5}) / policy_.score({1, 5}), 1.0f, 0.05f);
    EXPECT_EQ(policy_.victim(0), (ExpertId{1, 5}));
    visit(policy_, 0, {1, 2});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 5}));
}

TEST_F(ReapPolicyTest, KeepsSizeClassesApart) {
    policy_.inserted({2, 0});
    EXPECT_FALSE(policy_.victim(0));
    EXPECT_EQ(policy_.victim(1), (ExpertId{2, 0}));
}

TEST_F(ReapPolicyTest, PinsCount) {
    for (int i = 0; i < 50; ++i) visit(policy_, 0, {1, 2});
    policy_.inserted({0, 1});
    policy_.inserted({0, 6});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 6}));
    policy_.pin({0, 6});
    policy_.pin({0, 6});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 1}));
    policy_.pin({0, 1});
    EXPECT_FALSE(policy_.victim(0));
    policy_.unpin({0, 6});
    EXPECT_FALSE(policy_.victim(0));
    policy_.unpin({0, 6});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 6}));
    policy_.evicted({0, 6});
    EXPECT_FALSE(policy_.victim(0));
}

TEST_F(ReapPolicyTest, StartsFromTheFrequenciesOfAnother) {
    for (int i = 0; i < 100; ++i) {
        visit(policy_, 0, {1, i % 8 == 1 ? 0 : i % 8});
        visit(policy_, 1, {2, 3});
    }
    const std::vector<float> learned = policy_.frequencies();
    ReapPolicy next(test::uniform(3, 8, 2, {100}), std::vector<uint32_t>{0, 0, 1}, true);
    next.start_from(learned);
    EXPECT_EQ(next.frequencies(), learned);
    next.inserted({0, 1});
    next.inserted({0, 5});
    next.inserted({1, 2});
    EXPECT_EQ(next.victim(0), (ExpertId{0, 5}));
    EXPECT_GT(next.score({1, 2}), next.score({1, 4}));
}

TEST_F(ReapPolicyTest, WhatItStartedFromFades) {
    std::vector<float> frequencies = policy_.frequencies();
    frequencies[7] = 1.0F;  // layer 0, expert 7
    policy_.start_from(frequencies);
    policy_.inserted({0, 7});
    policy_.inserted({0, 1});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 1}));
    for (int i = 0; i < 32; ++i) visit(policy_, 0, {1, 2});
    EXPECT_NEAR(policy_.frequencies()[7], 0.5F, 1e-3F);
    for (int i = 0; i < 200; ++i) visit(policy_, 0, {1, 2});
    EXPECT_EQ(policy_.victim(0), (ExpertId{0, 7}));
}

TEST(MakePolicy, NamesWhatItMade) {
    const Geometry small = test::uniform(2, 8, 2, {100});
    const std::vector<uint32_t> classes{0, 0};
    EXPECT_EQ(make_policy(PolicyKind::kLru, small, classes)->name(), "lru");
    EXPECT_EQ(make_policy(PolicyKind::kReap, small, classes)->name(), "reap");
    EXPECT_EQ(make_policy(PolicyKind::kReapLite, small, classes)->name(), "reap-lite");
}

TEST(MakePolicy, LeavesOutTransitionsAbove64MiB) {
    const std::vector<uint32_t> classes(129, 0);
    EXPECT_EQ(make_policy(PolicyKind::kReap, test::uniform(128, 512, 8, {100}), classes)->name(), "reap");
    EXPECT_EQ(make_policy(PolicyKind::kReap, test::uniform(129, 512, 8, {100}), classes)->name(), "reap-lite");
}

}  // namespace
}  // namespace bmoe::cache
