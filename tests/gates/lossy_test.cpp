// Lossy routing on whole models: at its neutral values it changes no bit, and what it forgoes stays within what was allowed.
#include <gtest/gtest.h>

#include <cmath>

#include "cache/slot_pool.h"
#include "tests/gates/run_model.h"

namespace bmoe::gates {
namespace {

constexpr Script kScript{33, 24};

// With the smallest cache there is: experts are cold.
std::unique_ptr<engine::Engine> open(const std::string &model, const backend::LossyOptions &lossy) {
    engine::Options options = gate_options(folder() + "/" + model, true);
    options.lossy = lossy;
    options.lookahead = 0;
    auto engine = std::make_unique<engine::Engine>(options);
    engine->store()->set_cache(cache::SlotPool::minimum_budget(engine->store()->geometry()), cache::PolicyKind::kReap);
    return engine;
}

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
        if (lossy.quality_budget >= 0) {
            EXPECT_LE(forgone, kPercent / 100 * static_cast<double>(counters.mass_routed) + 1e-6);
        } else if (counters.unweighted == 0) {
            EXPECT_GT(counters.dropped, 0U);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Lossy, testing::ValuesIn(models_with_experts(Shards::kWithout)),
                         [](const auto &info) { return test_name(info.param); });

}  // namespace
}  // namespace bmoe::gates
