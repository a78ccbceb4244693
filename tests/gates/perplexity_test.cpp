#include "engine/perplexity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/error.h"
#include "gates/run_model.h"

namespace bmoe::gates {
namespace {

using engine::Engine;
using engine::Perplexity;

constexpr size_t kTokens = 600;  // two windows and a part of a third

std::vector<llama_token> some_text(size_t n) {
    std::vector<llama_token> tokens;
    uint32_t state = 7;
    for (size_t i = 0; i < n; ++i) {
        state = state * 1664525 + 1013904223;
        tokens.push_back(static_cast<llama_token>((state >> 8) % 200));
    }
    return tokens;
}

engine::Options options(bool stream) {
    engine::Options options = gate_options(folder() + "/qwen3moe.gguf", stream);
    options.n_ctx = 256;
    if (stream) {
        options.cache_bytes = 2 << 20;
    }
    return options;
}

// Of every token that a window of the text scores, as the definition has it: -log softmax(logits)[next].
std::vector<double> definition(Engine &resident, std::span<const llama_token> text) {
    const llama_vocab *vocab = llama_model_get_vocab(resident.model());
    const int32_t n_vocab = llama_vocab_n_tokens(vocab);
    const size_t window = llama_n_ctx(resident.context()) - 1;
    std::vector<double> all;
    for (size_t begin = 0; begin < text.size(); begin += window) {
        resident.reset();
        const llama_token first = llama_vocab_bos(vocab);
        if (begin > 0 && llama_vocab_get_add_bos(vocab)) {
            resident.decode({&first, 1});
        }
        const size_t end = std::min(begin + window, text.size());
        for (size_t i = begin; i + 1 < end; ++i) {
            resident.decode(text.subspan(i, 1));
            if (i - begin < engine::kUnscored) {
                continue;
            }
            const float *logits = llama_get_logits_ith(resident.context(), -1);
            double sum = 0;
            for (int32_t k = 0; k < n_vocab; ++k) {
                sum += std::exp(static_cast<double>(logits[k]));
            }
            all.push_back(std::log(sum) - static_cast<double>(logits[text[i + 1]]));
        }
    }
    return all;
}

double mean(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) {
        sum += value;
    }
    return sum / static_cast<double>(values.size());
}

void ignore(uint64_t /*scored*/) {}

TEST(Perplexity, IsThatOfTheResidentModelOverSeveralWindows) {
    Engine resident(options(false));
    Engine streamed(options(true));
    const auto text = some_text(kTokens);
    const std::vector<double> expected = definition(resident, text);
    uint64_t last = 0;
    const Perplexity result =
        engine::measure_perplexity(streamed, text, kTokens, [&](uint64_t scored) { EXPECT_EQ(scored, ++last); });
    EXPECT_EQ(result.scored, expected.size());
    EXPECT_EQ(last, expected.size());
    EXPECT_NEAR(result.mean_nll, mean(expected), 1e-9);
    double squares = 0;
    for (const double value : expected) {
        squares += (value - mean(expected)) * (value - mean(expected));
    }
    const auto n = static_cast<double>(expected.size());
    EXPECT_NEAR(result.nll_error, std::sqrt(squares / (n - 1) / n), 1e-9);
    EXPECT_NEAR(result.value(), std::exp(mean(expected)), 1e-6);
    // Nothing is decoded outside the figures.
    EXPECT_EQ(result.stats.step_seconds.size(), result.stats.generated);
    const Perplexity unstreamed = engine::measure_perplexity(resident, text, kTokens, ignore);
    EXPECT_EQ(unstreamed.mean_nll, result.mean_nll);
}

TEST(Perplexity, EndsWithTheLastTokenToScore) {
    Engine streamed(options(true));
    const auto text = some_text(kTokens);
    for (const uint64_t most : {1, 10, 250}) {
        const Perplexity result = engine::measure_perplexity(streamed, text, most, ignore);
        EXPECT_EQ(result.scored, most);
        // 223 are scored in the first window, after 32; 250 need 32 more, and the token that begins the second.
        EXPECT_LE(result.stats.generated, most + engine::kUnscored + (most > 223 ? engine::kUnscored + 1 : 0));
        EXPECT_EQ(result.stats.step_seconds.size(), result.stats.generated);
    }
}

TEST(Perplexity, CancelledSaysWhatItHasScored) {
    Engine streamed(options(true));
    const Perplexity result = engine::measure_perplexity(streamed, some_text(kTokens), kTokens, [&](uint64_t scored) {
        if (scored == 5) {
            streamed.cancel();
        }
    });
    EXPECT_EQ(result.scored, 5);
    EXPECT_EQ(result.stats.stop, engine::StopReason::kCancelled);
}

TEST(Perplexity, OfOneTokenIsRefused) {
    Engine streamed(options(true));
    EXPECT_THROW(engine::measure_perplexity(streamed, some_text(1), kTokens, ignore), Error);
    EXPECT_EQ(engine::measure_perplexity(streamed, some_text(2), kTokens, ignore).scored, 1);
}

}  // namespace
}  // namespace bmoe::gates
