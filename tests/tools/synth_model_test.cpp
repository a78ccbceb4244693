// Models that tools/make_synth.py writes, reduced: llama.cpp loads them, streaming them changes no bit, and a trace that
// tools/cut_trace.py cut is replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "cache/slot_pool.h"
#include "gates/run_model.h"

namespace bmoe::gates {
namespace {

std::string path_of(const std::string &file) { return std::string(BMOE_SYNTH_MODELS) + "/" + file; }

constexpr uint32_t kDecodeTokens = 24;

// How many different tokens the last `n` rows of logits generate.
size_t different_tokens(const std::vector<float> &logits, size_t vocabulary, size_t n) {
    std::set<std::ptrdiff_t> tokens;
    for (auto row = logits.end() - static_cast<std::ptrdiff_t>(n * vocabulary); row != logits.end();) {
        const auto end = row + static_cast<std::ptrdiff_t>(vocabulary);
        tokens.insert(std::max_element(row, end) - row);
        row = end;
    }
    return tokens.size();
}

class SynthModel : public testing::TestWithParam<std::string> {};

TEST_P(SynthModel, StreamedLogitsEqualResidentOnes) {
    const std::string model = path_of(GetParam());
    const Script script{33, kDecodeTokens};
    engine::Engine resident(gate_options(model, false));
    const std::vector<float> expected = run_script(resident, script);
    EXPECT_TRUE(std::all_of(expected.begin(), expected.end(), [](float logit) { return std::isfinite(logit); }));
    // A text that goes round in circles would use the same experts again and again.
    const auto vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(resident.model())));
    EXPECT_GT(different_tokens(expected, vocabulary, kDecodeTokens), kDecodeTokens / 3);

    engine::Engine streamed(gate_options(model, true));
    ASSERT_TRUE(streamed.report().streaming);
    EXPECT_EQ(first_difference(run_script(streamed, script), expected), -1) << "without a cache";
    const uint64_t whole = cache::SlotPool::whole_budget(streamed.store()->geometry());
    streamed.store()->set_cache(whole * 3 / 4, cache::PolicyKind::kReap);
    EXPECT_EQ(first_difference(run_script(streamed, script), expected), -1) << "with three quarters cached";
    EXPECT_GT(streamed.store()->counters().reads.bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SynthModel,
                         testing::Values("qwen3-30b-a3b.gguf", "gemma4-26b-a4b.gguf", "gpt-oss-120b.gguf"),
                         [](const auto &info) { return test_name(info.param); });

TEST(CutTrace, IsReplayedOnAModelOfFewerLayersWhichItsUncutFormIsNot) {
    engine::Options options = gate_options(path_of("gpt-oss-120b.gguf"), true);
    options.route_replay = path_of("cut.route.csv");
    engine::Engine engine(options);
    EXPECT_NE(engine.report().route_replay.find("3 tokens"), std::string::npos) << engine.report().route_replay;
    EXPECT_EQ(engine.store()->geometry().layers[0].top_k, 2U);
    run_script(engine, {8, 4});

    options.route_replay = path_of("whole.route.csv");
    EXPECT_THROW(engine::Engine{options}, Error);
}

}  // namespace
}  // namespace bmoe::gates
