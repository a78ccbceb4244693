#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "cache/route_trace.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

// Routing with what real routing has: some experts are hotter than others (1/rank), a token keeps some of the experts of the
// one before, some experts follow others, and the topic changes halfway. Integers only: the same on every machine.
RouteTrace make_trace() {
    constexpr uint32_t kLayers = 12, kExperts = 64, kTopK = 4, kPrompt = 20, kTokens = 320;
    RouteTrace trace;
    trace.model = "zipf-markov";
    trace.n_expert = kExperts;
    trace.top_k = kTopK;
    for (uint32_t l = 0; l < kLayers; ++l) trace.expert_bytes.push_back(l % 3 == 0 ? 3'000'000 : 2'600'000);
    std::mt19937 random(2024);
    std::vector<std::vector<int32_t>> previous(kLayers);
    const auto draw = [&](uint32_t layer, uint32_t token) {
        uint32_t at = random() % 4744;  // sum of 1000/rank over 64 ranks, rounded down
        uint32_t rank = 0;
        for (; rank + 1 < kExperts && at >= 1000 / (rank + 1); ++rank) at -= 1000 / (rank + 1);
        return static_cast<int32_t>((rank * 13 + layer * 29 + token / 160 * 7) % kExperts);
    };
    const auto route = [&](uint32_t layer, uint32_t token, Phase phase) {
        std::vector<int32_t> experts;
        while (experts.size() < kTopK) {
            int32_t expert = draw(layer, token);
            const uint32_t kind = random() % 10;
            if (!previous[layer].empty() && kind < 5) {
                expert = previous[layer][random() % kTopK];
                if (kind < 3) expert = (expert * 5 + 11) % static_cast<int32_t>(kExperts);
            }
            if (std::find(experts.begin(), experts.end(), expert) == experts.end()) experts.push_back(expert);
        }
        previous[layer] = experts;
        trace.rows.push_back({layer, phase, experts, {0.4f, 0.3f, 0.2f, 0.1f}});
    };
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
        for (uint32_t token = 0; token < kPrompt; ++token) route(layer, token, Phase::kPrefill);
    }
    for (uint32_t token = kPrompt; token < kTokens; ++token) {
        for (uint32_t layer = 0; layer < kLayers; ++layer) route(layer, token, Phase::kDecode);
    }
    return trace;
}

double percent(const RouteTrace &trace, PolicyKind kind, double share) {
    const auto bank = static_cast<double>(trace.geometry().bytes());
    return 100.0 * replay(trace, kind, static_cast<uint64_t>(share * bank)).hit_rate();
}

TEST(Replay, CountsBytesOfDecodeOnly) {
    RouteTrace trace;
    trace.n_expert = 4;
    trace.top_k = 2;
    trace.expert_bytes = {100, 300};
    trace.rows = {{0, Phase::kPrefill, {0, 1}, {1, 1}},
                  {0, Phase::kDecode, {0, 2}, {1, 1}},   // hit, miss
                  {1, Phase::kDecode, {3, 2}, {1, 1}},   // miss, miss
                  {0, Phase::kDecode, {1, 2}, {1, 1}}};  // hit, hit
    const ReplayResult all = replay(trace, PolicyKind::kLru, 1600);
    EXPECT_EQ(all.hit_bytes, 300u);
    EXPECT_EQ(all.missed_bytes, 700u);
    EXPECT_DOUBLE_EQ(all.hit_rate(), 0.3);
    const ReplayResult none = replay(trace, PolicyKind::kLru, 0);
    EXPECT_EQ(none.hit_bytes, 0u);
    EXPECT_EQ(none.missed_bytes, 1000u);
    EXPECT_EQ(ReplayResult{}.hit_rate(), 0.0);
}

TEST(Replay, ABudgetForEverythingMissesEveryExpertOnce) {
    const RouteTrace trace = make_trace();
    const uint64_t missed = replay(trace, PolicyKind::kLru, trace.geometry().bytes()).missed_bytes;
    EXPECT_EQ(replay(trace, PolicyKind::kReap, trace.geometry().bytes()).missed_bytes, missed);
    EXPECT_LE(missed, trace.geometry().bytes());
}

TEST(Replay, LruFallsToNothingBelowOneTokenCycleAndReapDoesNot) {
    const RouteTrace trace = make_trace();
    EXPECT_LT(percent(trace, PolicyKind::kLru, 0.05), 1.0);
    EXPECT_GT(percent(trace, PolicyKind::kReap, 0.05), 15.0);
}

TEST(Replay, ReapBeatsLruAtEveryBudget) {
    const RouteTrace trace = make_trace();
    for (double share : {0.08, 0.1, 0.15, 0.2, 0.25, 0.33}) {
        const double lru = percent(trace, PolicyKind::kLru, share);
        EXPECT_GT(percent(trace, PolicyKind::kReapLite, share), lru + 1.0) << share;
        EXPECT_GT(percent(trace, PolicyKind::kReap, share), lru + 1.5) << share;
    }
}

// Bytes hit, to the byte: a change here is a change of the policies.
TEST(Replay, HitsAreWhatTheyWere) {
    const RouteTrace trace = make_trace();
    const uint64_t budget = trace.geometry().bytes() / 5;
    EXPECT_EQ(replay(trace, PolicyKind::kLru, budget).hit_bytes, 18'810'000'000u);
    EXPECT_EQ(replay(trace, PolicyKind::kReapLite, budget).hit_bytes, 21'895'600'000u);
    EXPECT_EQ(replay(trace, PolicyKind::kReap, budget).hit_bytes, 22'097'600'000u);
}

// Routing recorded on a phone; what an independent implementation of the policies hits on it.
struct Published {
    const char *file;
    PolicyKind kind;
    double percent[5];  // at 10, 15, 20, 25, 33 % of the bank
};

class PublishedRates : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedRates, AreReproduced) {
    const char *folder = std::getenv("BMOE_TRACES");
    if (folder == nullptr) GTEST_SKIP() << "BMOE_TRACES does not name a folder with recorded traces";
    const std::string path = std::string(folder) + "/" + GetParam().file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " does not exist";
    const RouteTrace trace = read_route_trace(path);
    const double shares[] = {0.10, 0.15, 0.20, 0.25, 0.33};
    for (size_t i = 0; i < std::size(shares); ++i) {
        EXPECT_NEAR(percent(trace, GetParam().kind, shares[i]), GetParam().percent[i], 0.3) << shares[i];
    }
}

INSTANTIATE_TEST_SUITE_P(
    Traces, PublishedRates,
    ::testing::Values(Published{"qwen.route.csv", PolicyKind::kLru, {49.4, 65.0, 73.8, 82.2, 90.1}},
                      Published{"qwen.route.csv", PolicyKind::kReapLite, {58.5, 69.8, 78.4, 84.8, 91.3}},
                      Published{"qwen.route.csv", PolicyKind::kReap, {59.6, 70.8, 78.8, 85.0, 91.4}},
                      Published{"gemma.route.csv", PolicyKind::kLru, {48.7, 64.1, 71.9, 79.1, 87.1}},
                      Published{"gemma.route.csv", PolicyKind::kReapLite, {59.2, 69.6, 76.7, 82.3, 89.2}},
                      Published{"gemma.route.csv", PolicyKind::kReap, {60.3, 70.4, 77.1, 82.5, 89.3}}),
    [](const auto &published) {
        const std::string file = published.param.file;
        const PolicyKind kind = published.param.kind;
        return file.substr(0, file.find('.')) + (kind == PolicyKind::kLru    ? "Lru"
                                                 : kind == PolicyKind::kReap ? "Reap"
                                                                             : "ReapLite");
    });

}  // namespace
}  // namespace bmoe::cache
