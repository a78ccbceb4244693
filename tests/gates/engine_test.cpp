#include "engine/engine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cache/slot_pool.h"
#include "engine/generation.h"
#include "gates/run_model.h"
#include "tests/support/scratch.h"

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
    // More than all experts is as much as they take.
    options.cache_bytes = uint64_t{1} << 50;
    EXPECT_EQ(refusal(options), "");
    options.ram_bytes = uint64_t{1} << 20;
    const std::string error = refusal(options);
    EXPECT_NE(error.find("--cache-mb"), std::string::npos) << error;
    EXPECT_NE(error.find("needs dense"), std::string::npos) << error;
}

// What a comparison of speed with a resident model rests on.
TEST(Engine, AModelInMemoryWithPlainExpertsComputesAsAStreamedOne) {
    std::vector<float> logits[2];
    for (const bool streams : {false, true}) {
        engine::Options options = gate_options(kModel, streams);
        options.repack = true;
        options.resident = !streams;
        options.repack_experts = false;
        engine::Engine engine(options);
        logits[streams ? 1 : 0] = run_script(engine, {});
    }
    EXPECT_EQ(first_difference(logits[0], logits[1]), -1);
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
    engine::GenerationRequest request;
    request.max_tokens = 4;
    request.at_end = engine::AtEnd::kGoOn;
    request.on_text = [](std::string_view) { return true; };
    EXPECT_THROW(engine::generate(engine, request, stats), Error);
    EXPECT_EQ(stats.generated, 0u);
    const std::vector<llama_token> prompt(20, 65);
    request.prompt = prompt;
    engine::generate(engine, request, stats);
    EXPECT_EQ(stats.generated, 4u);
}

TEST(Engine, IsCancelledInThePromptAndWhileGeneratingAndGoesOn) {
    engine::Options options = gate_options(kModel, true);
    options.n_ctx = 512;
    options.n_ubatch = 64;
    engine::Engine engine(options);
    engine::GenerationStats stats;
    engine::GenerationRequest request;
    const std::vector<llama_token> prompt(200, 65);
    request.prompt = prompt;
    request.max_tokens = 8;
    request.at_end = engine::AtEnd::kGoOn;
    request.on_text = [&](std::string_view) { return true; };
    request.on_prompt = [&](size_t done) {
        if (done == 64) engine.cancel();
    };
    engine::generate(engine, request, stats);
    EXPECT_EQ(stats.stop, engine::StopReason::kCancelled);
    EXPECT_EQ(stats.prompt_tokens, 64u);
    EXPECT_EQ(engine.held_tokens(), 64u);
    EXPECT_EQ(stats.generated, 0u);

    engine.reset();
    request.on_prompt = {};
    request.on_step = [&](const engine::Step &step) {
        if (step.index == 2) engine.cancel();
    };
    engine::generate(engine, request, stats);
    EXPECT_EQ(stats.stop, engine::StopReason::kCancelled);
    EXPECT_EQ(stats.step_seconds.size(), 3u);

    engine.reset();
    request.on_step = {};
    engine::generate(engine, request, stats);
    EXPECT_EQ(stats.stop, engine::StopReason::kMaxTokens);
    EXPECT_EQ(stats.generated, 8u);
}

TEST(Engine, CutsATextIntoTheTokensOfLlamaCppUnlessItIsCancelled) {
    engine::Engine engine(gate_options(kModel, true));
    std::string text = "And the king said unto größer\n";
    for (int i = 0; i < 17; ++i) {
        text += text;
    }
    engine.cancel();
    EXPECT_THROW(engine.tokenize(text, true), engine::Cancelled);
    text.resize(3000);
    for (const std::string &some : {text, std::string("a"), std::string()}) {
        for (const bool with_bos : {true, false}) {
            std::vector<llama_token> tokens(some.size() + 8);
            tokens.resize(static_cast<size_t>(llama_tokenize(llama_model_get_vocab(engine.model()), some.data(),
                                                             static_cast<int32_t>(some.size()), tokens.data(),
                                                             static_cast<int32_t>(tokens.size()), with_bos, true)));
            EXPECT_EQ(engine.tokenize(some, with_bos), tokens);
        }
    }
    EXPECT_FALSE(engine.take_cancel());
}

// llama.cpp splits texts for this tokenizer by std::regex, which recurses for each character of a word.
TEST(Engine, CutsAWordOfManyCharactersIntoTokens) {
    const bmoe::test::Scratch scratch;
    const std::string model = scratch.file("bloom.gguf");
    std::ostringstream read;
    read << std::ifstream(kModel, std::ios::binary).rdbuf();
    std::string file = read.str();
    const size_t at = file.find("gpt-2");
    ASSERT_NE(at, std::string::npos);
    std::ofstream(model, std::ios::binary) << file.replace(at, 5, "bloom");
    engine::Engine engine(gate_options(model, true));
    EXPECT_EQ(engine.tokenize(std::string(500000, 'x'), false).size(), 500000u);
}

TEST(Engine, SamplesBySeed) {
    engine::Engine engine(gate_options(kModel, true));
    const std::vector<llama_token> prompt(20, 65);
    const auto text_of = [&](const engine::Sampling &sampling) {
        engine.reset();
        std::string text;
        engine::GenerationStats stats;
        engine::GenerationRequest request;
        request.prompt = prompt;
        request.max_tokens = 16;
        request.at_end = engine::AtEnd::kGoOn;
        request.sampling = sampling;
        request.on_text = [&](std::string_view piece) {
            text += piece;
            text += '|';
            return true;
        };
        engine::generate(engine, request, stats);
        return text;
    };
    const std::string greedy = text_of({});
    EXPECT_EQ(text_of({.temperature = 0, .top_k = 3, .seed = 1}), greedy);
    EXPECT_EQ(text_of({.temperature = 1, .top_k = 1}), greedy);
    const engine::Sampling hot{.temperature = 2, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 7};
    EXPECT_EQ(text_of(hot), text_of(hot));
    EXPECT_NE(text_of(hot), greedy);
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

TEST(EngineBound, TakesTheMostThatTheDiskHasGiven) {
    const engine::Engine engine(gate_options(kModel, true));
    engine::GenerationStats stats;
    stats.step_seconds = {1};
    stats.decode.experts.reads.bytes = 1;
    stats.decode.experts.reads.active_ns = 1'000'000'000;
    EXPECT_EQ(engine::bound_input(engine, stats).bandwidth, engine.report().disk_bandwidth);
    stats.decode.experts.reads.bytes = uint64_t{1} << 50;
    EXPECT_EQ(engine::bound_input(engine, stats).bandwidth, static_cast<double>(uint64_t{1} << 50));
}

}  // namespace
}  // namespace bmoe::gates
