#include "engine/engine.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cache/slot_pool.h"
#include "engine/generation.h"
#include "gates/run_model.h"

namespace bmoe::gates {
namespace {

const std::string kModel = std::string(BMOE_TINY_MODELS) + "/qwen3moe.gguf";

std::string refusal(const engine::Options &options) {
    try {
        const engine::Engine engine(options);
    } catch (const Error &error) {
        return error.what();
    }
    return {};
}

TEST(Engine, RefusesACacheBelowTheWidestLayerAndSaysWhatWouldDo) {
    engine::Options options = gate_options(kModel, true);
    const cache::Geometry geometry = engine::Engine(options).store()->geometry();
    options.cache_bytes = cache::SlotPool::minimum_budget(geometry) - 1;
    EXPECT_NE(refusal(options).find("--cache-mb"), std::string::npos) << refusal(options);
    options.cache_bytes = cache::SlotPool::minimum_budget(geometry);
    EXPECT_EQ(refusal(options), "");
}

TEST(Engine, RefusesAPlanLargerThanTheMemory) {
    engine::Options options = gate_options(kModel, true);
    options.cache_bytes = uint64_t{1} << 50;
    const std::string error = refusal(options);
    EXPECT_NE(error.find("--cache-mb"), std::string::npos) << error;
    EXPECT_NE(error.find("needs dense"), std::string::npos) << error;
}

TEST(Engine, SaysWhenTheContextIsFullAndGoesOnAfterwards) {
    engine::Options options = gate_options(kModel, true);
    options.n_ctx = 256;
    options.n_ubatch = 64;
    engine::Engine engine(options);
    const std::vector<llama_token> tokens(200, 65);
    engine.decode(tokens);
    EXPECT_THROW(engine.decode(tokens), Error);
    engine.reset();
    EXPECT_NO_THROW(engine.decode(tokens));
}

TEST(Engine, GeneratesNothingFromNoTokens) {
    engine::Engine engine(gate_options(kModel, true));
    engine::GenerationStats stats;
    const auto on_text = [](std::string_view) { return true; };
    EXPECT_THROW(engine::generate(engine, {}, 4, on_text, stats), Error);
    EXPECT_EQ(stats.generated, 0u);
    const std::vector<llama_token> prompt(20, 65);
    engine::generate(engine, prompt, 4, on_text, stats, engine::AtEnd::kGoOn);
    EXPECT_EQ(stats.generated, 4u);
}

TEST(Engine, CanChangeTheCacheBetweenGenerations) {
    engine::Engine engine(gate_options(kModel, true));
    const Script script{20, 4};
    const std::vector<float> before = run_script(engine, script);
    engine.store()->set_cache(cache::SlotPool::whole_budget(engine.store()->geometry()), cache::PolicyKind::kLru);
    EXPECT_EQ(first_difference(run_script(engine, script), before), -1);
    engine.store()->set_cache(0, cache::PolicyKind::kLru);
    EXPECT_EQ(first_difference(run_script(engine, script), before), -1);
}

}  // namespace
}  // namespace bmoe::gates
