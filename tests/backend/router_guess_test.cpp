#include "backend/router_guess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ggml-backend.h"
#include "ggml-cpu.h"

namespace bmoe::backend {
namespace {

// A router of 4 experts over 2 inputs, in a graph like llama.cpp's.
class RouterGuessTest : public testing::Test {
  protected:
    RouterGuessTest() : context_(ggml_init({16 * ggml_tensor_overhead(), nullptr, true})) {
        ggml_cpu_init();
        weight_ = tensor("blk.7.ffn_gate_inp.weight", 2, 4);
        bias_ = tensor("blk.7.ffn_gate_inp.bias", 4, 1);
        selection_bias_ = tensor("blk.7.exp_probs_b.bias", 4, 1);
        logits_ = ggml_mul_mat(context_, weight_, ggml_new_tensor_1d(context_, GGML_TYPE_F32, 2));
        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(context_, ggml_backend_cpu_buffer_type());
        set(weight_, {1, 0, 0, 1, -1, 0, 2, 2});
    }
    ~RouterGuessTest() override {
        ggml_backend_buffer_free(buffer_);
        ggml_free(context_);
    }

    ggml_tensor *tensor(const char *name, int64_t ne0, int64_t ne1) {
        return ggml_set_name(ggml_new_tensor_2d(context_, GGML_TYPE_F32, ne0, ne1), name);
    }
    static void set(ggml_tensor *tensor, const std::vector<float> &values) {
        std::memcpy(tensor->data, values.data(), ggml_nbytes(tensor));
    }
    std::vector<int32_t> top(size_t count, std::vector<float> input) {
        std::vector<int32_t> experts;
        EXPECT_TRUE(guess_.top(0, {input.data(), 2, 0}, count, experts));
        return experts;
    }

    ggml_context *context_;
    ggml_backend_buffer_t buffer_ = nullptr;
    ggml_tensor *weight_ = nullptr, *bias_ = nullptr, *selection_bias_ = nullptr, *logits_ = nullptr;
    RouterGuess guess_{1};
};

TEST_F(RouterGuessTest, KnowsARouterOnceItSawItsNode) {
    EXPECT_FALSE(guess_.knows(0));
    EXPECT_FALSE(guess_.knows(1)) << "no such layer";
    guess_.look_at(logits_, 0);
    EXPECT_TRUE(guess_.knows(0));
}

TEST_F(RouterGuessTest, RanksExpertsByTheRoutersLogits) {
    guess_.look_at(logits_, 0);
    EXPECT_EQ(top(2, {3, 1}), (std::vector<int32_t>{3, 0}));
    EXPECT_EQ(top(9, {-3, 1}), (std::vector<int32_t>{2, 1, 0, 3})) << "not more than there are";
}

TEST_F(RouterGuessTest, AddsTheBiasesThatTheGraphAdds) {
    guess_.look_at(logits_, 0);
    set(bias_, {0, 100, 0, 0});
    guess_.look_at(ggml_add(context_, logits_, bias_), 0);
    EXPECT_EQ(top(1, {3, 1}), (std::vector<int32_t>{1}));
    set(selection_bias_, {0, -5, 7, 0});
    guess_.look_at(ggml_add(context_, logits_, selection_bias_), 0);
    EXPECT_EQ(top(1, {3, 1}), (std::vector<int32_t>{2}));
}

// Gemma 4: router and experts see the same normalised values, times other weights.
TEST_F(RouterGuessTest, KnowsARouterWithAnInputOfItsOwn) {
    RouterGuess guess(2);
    ggml_context *context = ggml_init({64 * ggml_tensor_overhead(), nullptr, true});
    const auto weights = [&](const std::vector<float> &values) {
        ggml_tensor *tensor = ggml_new_tensor_1d(context, GGML_TYPE_F32, 2);
        tensor->buffer = buffer_;
        tensor->data = const_cast<float *>(values.data());
        return tensor;
    };
    ggml_tensor *x = ggml_new_tensor_1d(context, GGML_TYPE_F32, 2);
    ggml_tensor *bank = ggml_new_tensor_3d(context, GGML_TYPE_F32, 2, 8, 4);
    const auto look = [&](uint16_t layer, ggml_tensor *router_weights, ggml_tensor *expert_weights, float epsilon) {
        ggml_tensor *own = ggml_scale(context, ggml_rms_norm(context, x, 1e-5F), 0.5F);
        ggml_tensor *logits = ggml_mul_mat(context, weight_, ggml_mul(context, own, router_weights));
        ggml_tensor *ids = ggml_argsort_top_k(context, ggml_soft_max(context, logits), 2);
        ggml_tensor *input = ggml_mul(context, ggml_rms_norm(context, x, epsilon), expert_weights);
        guess.look_at(logits, layer);
        guess.look_at_product(ggml_mul_mat_id(context, bank, ggml_reshape_3d(context, input, 2, 1, 1), ids), layer);
    };
    const auto scores = [&](uint16_t layer, const ExpertInput &input) {
        std::vector<int32_t> experts;
        EXPECT_TRUE(guess.top(layer, input, 4, experts));
        return std::vector<float>{guess.score(0), guess.score(1)};
    };
    const std::vector<float> first{4, 6}, first_experts{2, 0.5F}, second{-8, 2}, second_experts{1, 0};
    const std::vector<float> input{6, 1};  // normalised values 3 and 2
    look(0, weights(first), weights(first_experts), 1e-6F);
    EXPECT_EQ(scores(0, {input.data(), 2, 0}), input) << "of another normalisation: nothing is known";
    look(0, weights(first), weights(first_experts), 1e-5F);
    look(1, weights(second), weights(second_experts), 1e-5F);
    EXPECT_EQ(scores(0, {input.data(), 2, 0}), (std::vector<float>{6, 6}));
    EXPECT_EQ(scores(1, {input.data(), 2, 0}), (std::vector<float>{-12, 2})) << "a guess, from the layer before";
    EXPECT_EQ(scores(1, {input.data(), 2, 1}), (std::vector<float>{-24, 0})) << "no number where a weight is 0";
    ggml_free(context);
}

TEST_F(RouterGuessTest, RefusesAnInputOfAnotherLength) {
    guess_.look_at(logits_, 0);
    std::vector<int32_t> experts;
    std::vector<float> probabilities;
    const std::vector<float> input(3);
    EXPECT_FALSE(guess_.top(0, {input.data(), 3, 0}, 2, experts));
    EXPECT_FALSE(guess_.probabilities(0, {input.data(), 3, 0}, RouterGate::kSoftmax, 2, probabilities, experts));
}

TEST_F(RouterGuessTest, GivesProbabilitiesByTheGate) {
    guess_.look_at(logits_, 0);
    const std::vector<float> input{1, 2};  // logits 1, 2, -1, 6
    std::vector<int32_t> selected;
    std::vector<float> probabilities;
    const auto ratio = [&](RouterGate gate) {
        EXPECT_TRUE(guess_.probabilities(0, {input.data(), 2, 0}, gate, 2, probabilities, selected));
        std::sort(selected.begin(), selected.end());
        EXPECT_EQ(selected, (std::vector<int32_t>{1, 3}));
        return probabilities[0] / probabilities[1];
    };
    EXPECT_NEAR(ratio(RouterGate::kSoftmax), std::exp(-1.0), 1e-6);
    EXPECT_NEAR(ratio(RouterGate::kLogits), std::exp(-1.0), 1e-6);
    EXPECT_NEAR(ratio(RouterGate::kSigmoid), (1 + std::exp(-2.0)) / (1 + std::exp(-1.0)), 1e-6);
    EXPECT_NEAR(ratio(RouterGate::kSqrtSoftplus), std::sqrt(std::log1p(std::exp(1.0)) / std::log1p(std::exp(2.0))),
                1e-6);
}

TEST_F(RouterGuessTest, TheSelectionBiasLeavesProbabilitiesAlone) {
    guess_.look_at(logits_, 0);
    set(selection_bias_, {0, 0, 5, 0});
    guess_.look_at(ggml_add(context_, logits_, selection_bias_), 0);
    const std::vector<float> input{1, 2};
    std::vector<int32_t> selected;
    std::vector<float> probabilities;
    ASSERT_TRUE(guess_.probabilities(0, {input.data(), 2, 0}, RouterGate::kSigmoid, 1, probabilities, selected));
    EXPECT_EQ(selected, (std::vector<int32_t>{2}));
    EXPECT_NEAR(probabilities[2], 1 / (1 + std::exp(1.0)), 1e-6);
}

TEST(RouterNames, BlocksAndParts) {
    EXPECT_EQ(block_of("blk.12.ffn_gate_inp.weight"), 12);
    EXPECT_EQ(block_of("output.weight"), -1);
    EXPECT_EQ(block_of("blk.x.y"), -1);
}

}  // namespace
}  // namespace bmoe::backend
