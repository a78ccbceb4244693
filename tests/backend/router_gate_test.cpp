#include "backend/router_gate.h"

#include <gtest/gtest.h>

#include "ggml.h"

namespace bmoe::backend {
namespace {

// Graphs like llama.cpp's, not computed: 8 experts, 2 selected of each of 3 tokens.
class RouterGateTest : public testing::Test {
  protected:
    RouterGateTest() : context_(ggml_init({64 * ggml_tensor_overhead(), nullptr, true})) {
        logits_ = ggml_mul_mat(context_, ggml_new_tensor_2d(context_, GGML_TYPE_F32, 4, 8),
                               ggml_new_tensor_2d(context_, GGML_TYPE_F32, 4, 3));
        ids_ = ggml_argsort_top_k(context_, logits_, 2);
        ids_->data = &ids_data_;
    }
    ~RouterGateTest() override { ggml_free(context_); }

    ggml_tensor *gather(ggml_tensor *probabilities) {
        return ggml_get_rows(context_, ggml_reshape_3d(context_, probabilities, 1, 8, 3), ids_);
    }
    ggml_tensor *normalise(ggml_tensor *weights) {
        weights = ggml_reshape_2d(context_, weights, 2, 3);
        weights = ggml_div(context_, weights, ggml_clamp(context_, ggml_sum_rows(context_, weights), 1e-5F, 9));
        return ggml_scale(context_, ggml_reshape_3d(context_, weights, 1, 2, 3), 2.5F);
    }

    ggml_context *context_;
    ggml_tensor *logits_ = nullptr, *ids_ = nullptr;
    int ids_data_ = 0, other_data_ = 0;
};

TEST_F(RouterGateTest, KnowsTheFunctionsOfLlamaCpp) {
    ggml_tensor *softmax = ggml_soft_max(context_, logits_);
    EXPECT_EQ(router_gate(gather(softmax), ids_), RouterGate::kSoftmax);
    EXPECT_EQ(router_gate(normalise(gather(softmax)), ids_), RouterGate::kSoftmax);
    EXPECT_EQ(router_gate(normalise(gather(ggml_sigmoid(context_, logits_))), ids_), RouterGate::kSigmoid);
    ggml_tensor *root = ggml_sqrt(context_, ggml_softplus(context_, logits_));
    EXPECT_EQ(router_gate(gather(root), ids_), RouterGate::kSqrtSoftplus);
    ggml_tensor *selected = ggml_soft_max(context_, ggml_reshape_2d(context_, gather(logits_), 2, 3));
    EXPECT_EQ(router_gate(ggml_reshape_3d(context_, selected, 1, 2, 3), ids_), RouterGate::kLogits);
}

TEST_F(RouterGateTest, OthersAreWeightsAllTheSame) {
    EXPECT_EQ(router_gate(gather(ggml_tanh(context_, logits_)), ids_), RouterGate::kOther);
    EXPECT_EQ(router_gate(gather(logits_), ids_), RouterGate::kOther);
}

TEST_F(RouterGateTest, RefusesFactorsOfTheModel) {
    ggml_tensor *scales = ggml_new_tensor_1d(context_, GGML_TYPE_F32, 8);
    ggml_tensor *repeated = ggml_repeat_4d(context_, ggml_reshape_3d(context_, scales, 1, 8, 1), 1, 8, 3, 1);
    EXPECT_EQ(router_gate(ggml_get_rows(context_, repeated, ids_), ids_), std::nullopt);
    EXPECT_EQ(router_gate(ggml_new_tensor_3d(context_, GGML_TYPE_F32, 1, 2, 3), ids_), std::nullopt);
}

TEST_F(RouterGateTest, RefusesWeightsOfAnotherSelection) {
    ggml_tensor *other = ggml_argsort_top_k(context_, logits_, 2);
    other->data = &other_data_;
    EXPECT_EQ(router_gate(gather(ggml_soft_max(context_, logits_)), other), std::nullopt);
}

}  // namespace
}  // namespace bmoe::backend
