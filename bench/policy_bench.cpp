// What an eviction policy costs per generated token: learning the routing of every layer, and choosing victims for the misses
// of a cache that holds a fifth of the experts. Read the time per iteration: one token.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "cache/expert_index.h"
#include "cache/policy.h"

namespace {

using namespace bmoe::cache;

struct Model {
    uint32_t layers, experts, top_k;
};

// Routing of some tokens, layer after layer: a third of the experts is kept from the token before, the others are drawn with
// a preference for some.
std::vector<std::vector<int32_t>> make_routing(const Model &model, uint32_t tokens) {
    std::mt19937 random(1);
    std::vector<std::vector<int32_t>> routing;
    for (uint32_t token = 0; token < tokens; ++token) {
        for (uint32_t layer = 0; layer < model.layers; ++layer) {
            std::vector<int32_t> experts;
            std::vector<bool> taken(model.experts);
            while (experts.size() < model.top_k) {
                const uint32_t drawn =
                    std::min({random() % model.experts, random() % model.experts, random() % model.experts});
                auto expert = static_cast<int32_t>((drawn + layer * 17) % model.experts);
                if (token > 0 && random() % 3 == 0)
                    expert = routing[routing.size() - model.layers][random() % model.top_k];
                if (taken[static_cast<size_t>(expert)]) continue;
                taken[static_cast<size_t>(expert)] = true;
                experts.push_back(expert);
            }
            routing.push_back(std::move(experts));
        }
    }
    return routing;
}

void decode(benchmark::State &state, PolicyKind kind, Model model) {
    constexpr uint32_t kTokens = 256;
    Geometry geometry;
    geometry.layers.assign(model.layers, LayerGeometry{model.experts, model.top_k, {1}});
    const auto routing = make_routing(model, kTokens);
    const std::vector<uint32_t> one_class(model.layers, 0);
    const std::vector<float> weights(model.top_k, 1.0f);
    const auto policy = make_policy(kind, geometry, one_class);
    const ExpertIndex index(geometry);
    std::vector<uint8_t> resident(index.count());
    size_t count = 0;
    const size_t capacity = index.count() / 5;
    uint64_t used = 0, missed = 0;

    const auto run_token = [&](uint32_t token) {
        for (uint32_t layer = 0; layer < model.layers; ++layer) {
            const std::vector<int32_t> &experts = routing[token % kTokens * model.layers + layer];
            const auto id = [layer](int32_t e) {
                return ExpertId{static_cast<uint16_t>(layer), static_cast<uint16_t>(e)};
            };
            policy->visit({static_cast<uint16_t>(layer), 1, model.top_k, experts, weights, Phase::kDecode});
            for (int32_t e : experts) policy->pin(id(e));
            for (int32_t e : experts) {
                ++used;
                if (resident[index(id(e))]) continue;
                ++missed;
                if (count == capacity) {
                    const ExpertId victim = *policy->victim(0);
                    policy->evicted(victim);
                    resident[index(victim)] = 0;
                } else {
                    ++count;
                }
                resident[index(id(e))] = 1;
                policy->inserted(id(e));
            }
            for (int32_t e : experts) policy->unpin(id(e));
        }
    };

    uint32_t token = 0;
    while (token < kTokens) run_token(token++);
    used = missed = 0;
    for (auto _ : state) run_token(token++);
    state.counters["evictions/token"] =
        benchmark::Counter(static_cast<double>(missed), benchmark::Counter::kAvgIterations);
    state.counters["hit %"] = 100.0 - 100.0 * static_cast<double>(missed) / static_cast<double>(used);
}

constexpr Model kModel128{48, 128, 8};
constexpr Model kModel512{48, 512, 10};

BENCHMARK_CAPTURE(decode, lru_48x128_top8, PolicyKind::kLru, kModel128)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, reap_48x128_top8, PolicyKind::kReap, kModel128)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, reap_lite_48x128_top8, PolicyKind::kReapLite, kModel128)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, reap_lite_48x512_top10, PolicyKind::kReapLite, kModel512)->Unit(benchmark::kMicrosecond);

}  // namespace
