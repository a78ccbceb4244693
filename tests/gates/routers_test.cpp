// A model's routers are found wherever its weights are, and applied to the experts' input they select what the model does.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/route_observer.h"
#include "backend/router_guess.h"
#include "cache/slot_pool.h"
#include "gates/run_model.h"
#include "ggml.h"

namespace bmoe::gates {
namespace {

using engine::DenseWeights;

// Counts the tokens of routings whose experts the layer's router selects again.
class AskedAgain : public backend::RouteObserver {
  public:
    void on_routing(const backend::ObservedRouting &routing, backend::RouterGuess &routers) override {
        for (uint32_t token = 0; token < routing.n_tokens; ++token) {
            ++tokens;
            if (routing.input == nullptr || !routers.knows(routing.layer)) {
                continue;
            }
            const auto *row = reinterpret_cast<const float *>(static_cast<const char *>(routing.input->data) +
                                                              size_t{token} * routing.input->nb[2]);
            const auto chosen = routing.experts.subspan(size_t{token} * routing.top_k, routing.top_k);
            same += routers.top(routing.layer, {row, routing.input->ne[0], routing.layer}, routing.top_k, selected_) &&
                            std::is_permutation(selected_.begin(), selected_.end(), chosen.begin(), chosen.end())
                        ? 1
                        : 0;
        }
    }
    uint64_t tokens = 0;
    uint64_t same = 0;

  private:
    std::vector<int32_t> selected_;
};

class Routers : public testing::TestWithParam<std::tuple<const char *, DenseWeights>> {
  protected:
    static engine::Options options() {
        const auto [model, dense] = GetParam();
        engine::Options options = gate_options(folder() + "/" + model, true);
        options.dense_weights = dense;
        options.repack = true;
        return options;
    }
};

TEST_P(Routers, SelectAgainWhatTheModelSelects) {
    AskedAgain asked;
    engine::Options with_observer = options();
    with_observer.route_observer = &asked;
    engine::Engine engine(with_observer);
    run_script(engine, {33, 24});
    EXPECT_GT(asked.tokens, 0U);
    // Where two scores are as good as equal, rounding may decide otherwise.
    constexpr double kMost = 0.95;
    EXPECT_GE(static_cast<double>(asked.same), kMost * static_cast<double>(asked.tokens));
}

TEST_P(Routers, AreAskedForTheNextLayer) {
    engine::Options with_lookahead = options();
    with_lookahead.lookahead = 4;
    engine::Engine engine(with_lookahead);
    const cache::Geometry &geometry = engine.store()->geometry();
    engine.store()->set_cache(
        std::max(cache::SlotPool::minimum_budget(geometry), cache::SlotPool::whole_budget(geometry) / 2),
        cache::PolicyKind::kReap);
    run_script(engine, {33, 128});
    const backend::LookaheadCounters counters = engine.store()->counters().lookahead;
    EXPECT_GT(counters.guesses, 0U);
    EXPECT_GT(counters.adopted, 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, Routers,
                         testing::Combine(testing::Values("qwen3moe.gguf", "gpt-oss.gguf", "gemma4.gguf"),
                                          testing::Values(DenseWeights::kAnon, DenseWeights::kMmap)),
                         [](const auto &info) {
                             return test_name(std::get<0>(info.param)) +
                                    (std::get<1>(info.param) == DenseWeights::kMmap ? "_mapped" : "");
                         });

}  // namespace
}  // namespace bmoe::gates
