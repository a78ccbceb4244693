#include "backend/lossy_routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "cache/slot_pool.h"
#include "tests/backend/routed_layers.h"
#include "tests/backend/team.h"

namespace bmoe::backend::test {
namespace {

constexpr Shape kShape{.n_expert = 8, .top_k = 4, .n_layers = 2};
constexpr float kOff = -9;  // the logit of an expert that does not matter

StoreOptions with(const LossyOptions &lossy, int lookahead = 0) {
    StoreOptions options{.io_threads = 2, .io_engine = io::ReadEngine::kLanes, .lookahead = lookahead};
    options.lossy = lossy;
    return options;
}

// Logits of one token: those of the experts listed, kOff for the others.
std::vector<float> token(std::initializer_list<std::pair<int, float>> logits) {
    std::vector<float> all(kShape.n_expert, kOff);
    for (const auto &[expert, logit] : logits) {
        all[static_cast<size_t>(expert)] = logit;
    }
    return all;
}

// Layers whose cache, with room for every expert, holds experts 0 to 3 of each.
class Lossy {
  public:
    explicit Lossy(const LossyOptions &options, const Layout &layout = {}, int n_threads = 1)
        : team(n_threads), layers(kShape, with(options), layout) {
        layers.store().set_cache(cache::SlotPool::whole_budget(layers.store().geometry()), cache::PolicyKind::kReap);
        for (uint32_t layer = 0; layer < kShape.n_layers; ++layer) {
            layers.visit(team.executor(), layer, token({{0, 5}, {1, 5}, {2, 5}, {3, 5}}));
        }
        warm = layers.store().counters();
    }
    StoreCounters used() { return layers.store().counters().since(warm); }
    bool resident(int expert) { return layers.store().cache()->resident({0, static_cast<uint16_t>(expert)}); }
    RoutedLayers::Visit visit(const std::vector<float> &logits) {
        RoutedLayers::Visit visit = layers.visit(team.executor(), 0, logits);
        EXPECT_EQ(visit.status, GGML_STATUS_SUCCESS);
        layers.expect_right(visit, 0);
        return visit;
    }

    Team team;
    RoutedLayers layers;
    StoreCounters warm;
};

// Experts 0 and 1 are resident and heavy, 5 and 6 neither.
const std::vector<float> kTwoCold = token({{0, 3}, {1, 2.5F}, {5, 0}, {6, -0.5F}, {2, -0.6F}, {3, -0.7F}});

class LossyLayouts : public testing::TestWithParam<std::tuple<Layout, int>> {
  protected:
    Layout layout = std::get<0>(GetParam());
    int threads = std::get<1>(GetParam());
};

TEST_P(LossyLayouts, DropsColdExpertsWithoutReadingThem) {
    Lossy lossy({.drop_cold = 0.9}, layout, threads);
    const auto visit = lossy.visit(kTwoCold);
    EXPECT_EQ(visit.router_ids, (std::vector<int32_t>{0, 1, 5, 6}));
    EXPECT_EQ(visit.ids, (std::vector<int32_t>{0, 1, 0, 0}));
    EXPECT_EQ(visit.weights[0], visit.router_weights[0]);
    EXPECT_EQ(visit.weights[1], visit.router_weights[1]);
    EXPECT_EQ(visit.weights[2], 0);
    EXPECT_EQ(visit.weights[3], 0);
    const StoreCounters used = lossy.used();
    EXPECT_EQ(used.reads.reads, 0U);
    EXPECT_EQ(used.cache.misses, 0U);
    EXPECT_EQ(used.lossy.routed, 4U);
    EXPECT_EQ(used.lossy.mass_routed, 1U);
    EXPECT_EQ(used.lossy.dropped, 2U);
    const double rest = std::exp(0.0) + std::exp(-0.5);
    EXPECT_NEAR(used.lossy.mass_dropped, rest / (rest + std::exp(3.0) + std::exp(2.5)), 1e-5);
}

TEST_P(LossyLayouts, RenormalisesWhatIsLeft) {
    Lossy lossy({.drop_cold = 0.9, .drop_renorm = true}, layout, threads);
    const auto visit = lossy.visit(kTwoCold);
    const auto sum = [](const std::vector<float> &weights) {
        return weights[0] + weights[1] + weights[2] + weights[3];
    };
    EXPECT_EQ(visit.weights[3], 0);
    EXPECT_NEAR(sum(visit.weights), sum(visit.router_weights), 1e-6);
    EXPECT_NEAR(visit.weights[0] / visit.weights[1], visit.router_weights[0] / visit.router_weights[1], 1e-5);
}

TEST_P(LossyLayouts, ReplacesColdExpertsByResidentOnes) {
    Lossy lossy({.substitute_cold = 0.5}, layout, threads);
    const auto visit = lossy.visit(kTwoCold);
    EXPECT_EQ(visit.ids, (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_NEAR(visit.weights[2] / visit.router_weights[2], std::exp(-0.6), 1e-5);
    EXPECT_NEAR(visit.weights[3] / visit.router_weights[3], std::exp(-0.2), 1e-5);
    const StoreCounters used = lossy.used();
    EXPECT_EQ(used.reads.reads, 0U);
    EXPECT_EQ(used.lossy.substituted, 2U);
    EXPECT_EQ(used.lossy.searched, 1U);
    EXPECT_EQ(used.lossy.unscored, 0U);
    const auto all = visit.router_weights;
    EXPECT_NEAR(used.lossy.mass_substituted,
                (all[2] + all[3] - visit.weights[2] - visit.weights[3]) / (all[0] + all[1] + all[2] + all[3]), 1e-5);
}

TEST_P(LossyLayouts, DropsInPrefillOnlyWhenAsked) {
    std::vector<float> prompt = kTwoCold;
    // Expert 5 is the second token's heaviest: it is read, and nothing is saved by dropping it from the first.
    const std::vector<float> second = token({{5, 3}, {0, 2}, {1, 1}, {6, -1}});
    prompt.insert(prompt.end(), second.begin(), second.end());
    Lossy untouched({.drop_cold = 0.9, .substitute_cold = 0.1}, layout, threads);
    EXPECT_EQ(untouched.visit(prompt).ids, (std::vector<int32_t>{0, 1, 5, 6, 5, 0, 1, 6}));
    EXPECT_EQ(untouched.used().lossy.routed, 0U);
    EXPECT_EQ(untouched.used().reads.reads, 6U);

    Lossy lossy({.drop_cold = 0.9, .drop_in_prefill = true}, layout, threads);
    const auto visit = lossy.visit(prompt);
    EXPECT_EQ(visit.ids, (std::vector<int32_t>{0, 1, 5, 0, 5, 0, 1, 5}));
    EXPECT_EQ(lossy.used().lossy.dropped, 2U);
    EXPECT_EQ(lossy.used().lossy.mass_routed, 2U);
    EXPECT_EQ(lossy.used().reads.reads, 3U) << "expert 5";
}

std::string layout_name(const testing::TestParamInfo<std::tuple<Layout, int>> &info) {
    const auto &[layout, threads] = info.param;
    return std::string(layout.biases ? "Biases" : "") + (layout.factors ? "Factors" : "") +
           (layout.normalised ? "Normalised" : "") + (layout.no_flow ? "NoFlow" : "") + "Threads" +
           std::to_string(threads);
}

INSTANTIATE_TEST_SUITE_P(All, LossyLayouts,
                         testing::Combine(testing::Values(Layout{}, Layout{.biases = true}, Layout{.factors = true},
                                                          Layout{.normalised = true}, Layout{.no_flow = true},
                                                          Layout{.biases = true, .normalised = true, .no_flow = true}),
                                          testing::Values(1, 2)),
                         layout_name);

// Decodes and prompts through all layers, the same for every call.
struct Outcome {
    std::vector<RoutedLayers::Visit> visits;
    StoreCounters counters;
};

Outcome run(const LossyOptions &options, bool small_cache) {
    RoutedLayers layers(kShape, with(options));
    const cache::Geometry &geometry = layers.store().geometry();
    layers.store().set_cache(
        small_cache ? cache::SlotPool::minimum_budget(geometry) : cache::SlotPool::whole_budget(geometry),
        cache::PolicyKind::kReap);
    Team team(1);
    Outcome outcome;
    for (int i = 0; i < 40; ++i) {
        for (uint32_t layer = 0; layer < kShape.n_layers; ++layer) {
            outcome.visits.push_back(layers.visit(team.executor(), layer, layers.random_logits(i % 8 == 0 ? 5 : 1, 2)));
        }
    }
    outcome.counters = layers.store().counters();
    return outcome;
}

class LossyNeutral : public testing::TestWithParam<LossyOptions> {};

TEST_P(LossyNeutral, IsTheSameAsOff) {
    for (const bool small_cache : {false, true}) {
        const Outcome off = run({}, small_cache);
        const Outcome neutral = run(GetParam(), small_cache);
        ASSERT_EQ(off.visits.size(), neutral.visits.size());
        for (size_t i = 0; i < off.visits.size(); ++i) {
            EXPECT_EQ(neutral.visits[i].ids, neutral.visits[i].router_ids);
            EXPECT_EQ(neutral.visits[i].weights, neutral.visits[i].router_weights);
            ASSERT_EQ(std::memcmp(off.visits[i].out.data(), neutral.visits[i].out.data(),
                                  off.visits[i].out.size() * sizeof(float)),
                      0);
        }
        EXPECT_EQ(off.counters.reads.bytes, neutral.counters.reads.bytes);
        EXPECT_EQ(off.counters.cache.hits, neutral.counters.cache.hits);
        EXPECT_EQ(off.counters.cache.evictions, neutral.counters.cache.evictions);
        EXPECT_EQ(neutral.counters.lossy.dropped + neutral.counters.lossy.substituted, 0U);
        EXPECT_GT(neutral.counters.lossy.routed, 0U);
        if (small_cache) {
            EXPECT_EQ(neutral.counters.lossy.searched > 0, GetParam().substitute_cold > 0);
        }
        EXPECT_EQ(neutral.counters.lossy.unscored, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(Knobs, LossyNeutral,
                         testing::Values(LossyOptions{.drop_cold = 1e-30, .drop_in_prefill = true, .drop_renorm = true},
                                         LossyOptions{.substitute_cold = 2}, LossyOptions{.quality_budget = 0},
                                         LossyOptions{.drop_cold = 1e-30, .drop_renorm = true, .substitute_cold = 2}));

TEST(LossyRouting, OffCountsNothing) {
    EXPECT_FALSE(LossyOptions().any());
    EXPECT_EQ(run({}, true).counters.lossy.visits, 0U);
}

TEST(LossyRouting, ADroppedExpertIsReadOnceItWeighsMore) {
    Lossy lossy({.drop_cold = 0.9});
    for (int i = 0; i < 20; ++i) {
        lossy.visit(kTwoCold);
    }
    EXPECT_FALSE(lossy.resident(5));
    EXPECT_EQ(lossy.visit(token({{0, 1.2F}, {1, 1.1F}, {5, 1}, {2, 0}})).ids, (std::vector<int32_t>{0, 1, 5, 2}));
    EXPECT_TRUE(lossy.resident(5));
    EXPECT_EQ(lossy.visit(kTwoCold).ids, (std::vector<int32_t>{0, 1, 5, 0})) << "and then used, however light";
}

// llama.cpp computes the last layer of a prompt for one token.
TEST(LossyRouting, TheLastLayerOfAPromptIsAPrompts) {
    Lossy lossy({.drop_cold = 0.9});
    lossy.visit(lossy.layers.random_logits(3, 1));
    const auto visit = lossy.layers.visit(lossy.team.executor(), 1, kTwoCold);
    EXPECT_EQ(visit.ids, visit.router_ids);
    EXPECT_EQ(lossy.used().lossy.routed, 0U);
}

TEST(LossyRouting, NotesOnceThatWeightsAreUnknown) {
    std::vector<std::string> notes;
    LossyOptions options{.drop_cold = 1, .substitute_cold = 0.1};
    options.on_note = [&](const std::string &note) { notes.push_back(note); };
    Lossy lossy(options, {.two_splits = true});
    for (int i = 0; i < 3; ++i) {
        const auto visit = lossy.visit(kTwoCold);
        EXPECT_EQ(visit.ids, visit.router_ids);
    }
    EXPECT_EQ(lossy.used().lossy.unweighted, 3U);
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_NE(notes[0].find("weights are not known"), std::string::npos) << notes[0];
}

TEST(LossyRouting, ReplacesNothingByScoresThatAreNotTheModels) {
    std::vector<std::string> notes;
    LossyOptions options{.substitute_cold = 0.1};
    options.on_note = [&](const std::string &note) { notes.push_back(note); };
    RoutedLayers layers(kShape, with(options));
    layers.reverse_known_routers();
    layers.store().set_cache(cache::SlotPool::minimum_budget(layers.store().geometry()), cache::PolicyKind::kReap);
    Team team(1);
    for (int i = 0; i < 150; ++i) {
        const auto visit = layers.visit(team.executor(), 0, layers.random_logits(1, 2));
        ASSERT_EQ(visit.ids, visit.router_ids);
    }
    const LossyCounters counters = layers.store().counters().lossy;
    EXPECT_GT(counters.searched, 64U);
    EXPECT_EQ(counters.unscored, counters.searched);
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_NE(notes[0].find("no expert is replaced"), std::string::npos) << notes[0];
}

// Small caches, reads ahead, every knob: whatever is used is computed with equal bits, and the budget holds.
TEST(LossyRouting, IsRightUnderEvictionAndReadsAhead) {
    const LossyOptions knobs[] = {{.drop_cold = 0.8, .drop_in_prefill = true, .substitute_cold = 0.6},
                                  {.drop_cold = 1, .drop_renorm = true},
                                  {.quality_budget = 3}};
    for (const LossyOptions &options : knobs) {
        Shape shape = kShape;
        shape.n_expert = 16;
        shape.n_layers = 3;
        RoutedLayers layers(shape, with(options, 3));
        layers.store().set_cache(cache::SlotPool::minimum_budget(layers.store().geometry()) * 2,
                                 cache::PolicyKind::kReap);
        Team team(2);
        for (int i = 0; i < 120; ++i) {
            const uint32_t tokens = i % 20 == 19 ? 7 : 1;
            for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
                const auto visit = layers.visit(team.executor(), layer, layers.random_logits(tokens, 1));
                ASSERT_EQ(visit.status, GGML_STATUS_SUCCESS);
                layers.expect_right(visit, layer);
            }
        }
        const LossyCounters lossy = layers.store().counters().lossy;
        EXPECT_GT(lossy.dropped + lossy.substituted, 20U);
        const double average = (lossy.mass_dropped + lossy.mass_substituted) / static_cast<double>(lossy.mass_routed);
        EXPECT_GT(average, 0);
        if (options.quality_budget >= 0) {
            EXPECT_LE(average, options.quality_budget / 100 + 1e-9);
        }
    }
}

TEST(LossyOptions, RefusesWhatMakesNoSense) {
    const auto refusal = [](const LossyOptions &options) -> std::string {
        try {
            options.check();
        } catch (const Error &error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(refusal({}), "");
    EXPECT_EQ(refusal({.drop_cold = 1, .drop_in_prefill = true, .substitute_cold = 2}), "");
    EXPECT_EQ(refusal({.quality_budget = 100}), "");
    for (const double bad : {-0.1, 1.1, std::nan("")}) {
        EXPECT_NE(refusal({.drop_cold = bad}).find("--drop-cold-experts"), std::string::npos);
    }
    for (const double bad : {-0.1, std::nan(""), HUGE_VAL}) {
        EXPECT_NE(refusal({.substitute_cold = bad}).find("--substitute-cold"), std::string::npos);
    }
    for (const double bad : {100.5, std::nan("")}) {
        EXPECT_NE(refusal({.quality_budget = bad}).find("--quality-budget"), std::string::npos);
    }
    EXPECT_NE(refusal({.drop_cold = 0.5, .quality_budget = 1}).find("without"), std::string::npos);
    EXPECT_NE(refusal({.drop_in_prefill = true, .quality_budget = 1}).find("without"), std::string::npos);
}

}  // namespace
}  // namespace bmoe::backend::test
