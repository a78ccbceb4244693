// Lossy routing on whole models: at its neutral values it changes no bit, and what it forgoes stays within what was allowed.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string_view>

#include "backend/route_observer.h"
#include "cache/slot_pool.h"
#include "gates/run_model.h"

namespace bmoe::gates {
namespace {

constexpr Script kScript{33, 24};

// With the smallest cache there is: experts are cold.
std::unique_ptr<engine::Engine> open(const std::string &model, const backend::LossyOptions &lossy,
                                     backend::RouteObserver *observer = nullptr) {
    engine::Options options = gate_options(folder() + "/" + model, true);
    options.lossy = lossy;
    options.route_observer = observer;
    options.lookahead = 0;
    auto engine = std::make_unique<engine::Engine>(options);
    engine->store()->set_cache(cache::SlotPool::minimum_budget(engine->store()->geometry()), cache::PolicyKind::kReap);
    return engine;
}

// What was used of each routing of a single token, in order.
class UsedExperts : public backend::RouteObserver {
  public:
    void on_routing(const backend::ObservedRouting &routing, backend::RouterGuess &) override {
        if (routing.n_tokens == 1) {
            used.emplace_back(routing.used.begin(), routing.used.end());
        }
    }
    std::vector<std::vector<int32_t>> used;
};

// A context with the whole model in memory, in which the router weights of experts that another run dropped are set to 0.
class WithoutDropped {
  public:
    WithoutDropped(const engine::Engine &resident, std::vector<std::vector<int32_t>> used) : used_(std::move(used)) {
        llama_context_params params = llama_context_default_params();
        params.n_ctx = llama_n_ctx(resident.context());
        params.n_batch = params.n_ubatch = llama_n_ubatch(resident.context());
        params.n_threads = params.n_threads_batch = 2;
        params.no_perf = true;
        params.cb_eval = [](ggml_tensor *tensor, bool ask, void *user) {
            return static_cast<WithoutDropped *>(user)->on_tensor(*tensor, ask);
        };
        params.cb_eval_user_data = this;
        context_.reset(llama_init_from_model(resident.model(), params));
    }
    llama_context *context() { return context_.get(); }
    bool at_end() const { return next_ == used_.size(); }

  private:
    // llama.cpp's names of the stages of a layer's weights begin alike and end with the layer's number. A prompt shows which is
    // the last.
    bool on_tensor(const ggml_tensor &tensor, bool ask) {
        const std::string_view name = tensor.name;
        if (name.rfind("ffn_moe_weights", 0) != 0 || name.find("_sum") != std::string_view::npos) {
            return false;
        }
        const size_t begin = name.find('-');
        const std::string layer(name.substr(begin, name.find(' ') - begin));
        const bool is_prompt = tokens_of(tensor) > 1;
        if (ask) {
            return true;
        }
        if (is_prompt) {
            last_stage_[layer] = name;
        } else if (last_stage_[layer] == name && next_ < used_.size()) {
            const std::vector<int32_t> &used = used_[next_++];
            for (size_t rank = 0; rank < used.size(); ++rank) {
                if (used[rank] == cache::kDropped) {
                    static_cast<float *>(tensor.data)[rank] = 0;
                }
            }
        }
        return true;
    }

    // Weights are [1, top_k, tokens] or [top_k, tokens].
    static int64_t tokens_of(const ggml_tensor &weights) { return weights.ne[0] == 1 ? weights.ne[2] : weights.ne[1]; }

    std::vector<std::vector<int32_t>> used_;
    size_t next_ = 0;
    std::map<std::string, std::string> last_stage_;
    engine::ContextPtr context_;
};

// Models that keep their routing: their routers' weights are applied before the experts, or to groups of them.
bool keeps_its_routing(const std::string &model) { return model.rfind("llama4", 0) == 0; }

// Models whose experts see a projection of what the router sees: it cannot be found from that.
bool has_latent_experts(const std::string &model) { return model == "nemotron_h_moe.gguf" || model == "kimi-k3.gguf"; }

class Lossy : public testing::TestWithParam<std::string> {};

TEST_P(Lossy, ChangesNothingAtItsNeutralValues) {
    engine::Engine resident(gate_options(folder() + "/" + GetParam(), false));
    const std::vector<float> expected = run_script(resident, kScript);
    constexpr double kNoneIsSoSmall = 1e-300;
    backend::LossyOptions drop;
    drop.drop_cold = kNoneIsSoSmall;
    drop.drop_in_prefill = true;
    drop.drop_renorm = true;
    backend::LossyOptions substitute;
    substitute.substitute_cold = 2;
    backend::LossyOptions budget;
    budget.quality_budget = 0;
    for (const backend::LossyOptions &lossy : {drop, substitute, budget}) {
        const auto engine = open(GetParam(), lossy);
        EXPECT_EQ(first_difference(run_script(*engine, kScript), expected), -1) << lossy.describe();
        const backend::LossyCounters counters = engine->store()->counters().lossy;
        EXPECT_EQ(counters.dropped + counters.substituted, 0U) << lossy.describe();
    }
}

TEST_P(Lossy, ForgoesNoMoreThanItMay) {
    constexpr double kPercent = 5;
    backend::LossyOptions budget;
    budget.quality_budget = kPercent;
    backend::LossyOptions thresholds;
    thresholds.substitute_cold = 0.3;
    thresholds.drop_cold = 1;
    thresholds.drop_renorm = true;
    for (const backend::LossyOptions &lossy : {budget, thresholds}) {
        const auto engine = open(GetParam(), lossy);
        for (const float logit : run_script(*engine, kScript)) {
            ASSERT_TRUE(std::isfinite(logit)) << lossy.describe();
        }
        const backend::LossyCounters counters = engine->store()->counters().lossy;
        EXPECT_LE(counters.dropped + counters.substituted, counters.routed);
        const double forgone = counters.mass_dropped + counters.mass_substituted;
        EXPECT_EQ(counters.unweighted > 0, keeps_its_routing(GetParam()));
        if (lossy.quality_budget >= 0) {
            EXPECT_LE(forgone, kPercent / 100 * static_cast<double>(counters.mass_routed) + 1e-6);
        } else if (counters.unweighted == 0) {
            EXPECT_GT(counters.dropped, 0U);
        }
        if (counters.unweighted == 0) {
            // Where experts are selected by groups, some scores do not explain the selection.
            EXPECT_EQ(counters.unscored < counters.searched, !has_latent_experts(GetParam())) << lossy.describe();
        }
    }
}

// Equal bits to the whole model in memory, in which the router gave the dropped experts no weight.
TEST_P(Lossy, ADroppedExpertContributesNothing) {
    backend::LossyOptions drop;
    drop.drop_cold = 1;
    UsedExperts observer;
    const auto engine = open(GetParam(), drop, &observer);
    const std::vector<float> logits = run_script(*engine, kScript);
    const backend::LossyCounters counters = engine->store()->counters().lossy;
    if (counters.unweighted > 0) {
        GTEST_SKIP() << "keeps its routing";
    }
    EXPECT_GT(counters.dropped, 0U);
    const engine::Engine resident(gate_options(folder() + "/" + GetParam(), false));
    WithoutDropped reference(resident, observer.used);
    EXPECT_EQ(first_difference(logits, run_script(reference.context(), kScript)), -1);
    EXPECT_TRUE(reference.at_end());
}

INSTANTIATE_TEST_SUITE_P(Models, Lossy, testing::ValuesIn(models_with_experts(Shards::kWithout)),
                         [](const auto &info) { return test_name(info.param); });

}  // namespace
}  // namespace bmoe::gates
