// Which experts a layer will probably select: its router applied to the expert input of the layer before.
//
// Published as cross-layer gating (AdapMoE, 2024; Fate, 2025): from layer to layer the residual stream changes little, so that
// the next router already sees most of what it will see.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/router_gate.h"
#include "ggml.h"

namespace bmoe::backend {

// A row of the experts' input, F32, of `layer`.
struct ExpertInput {
    const float *row = nullptr;
    int64_t n = 0;
    uint16_t layer = 0;
};

// The routers of a model's expert layers, as the graph uses them. They belong to the model.
class RouterGuess {
  public:
    explicit RouterGuess(size_t layers) : routers_(layers) {}

    // Learns from a node of the graph, if it is one of a router: called while a context is made.
    void look_at(const ggml_tensor *node, uint16_t layer);

    // Learns from a layer's first product by its experts whether its router has an input of its own. Known is that of Gemma 4:
    // the same normalised values, multiplied by other weights.
    void look_at_product(const ggml_tensor *product, uint16_t layer);

    bool knows(uint16_t layer) const { return layer < routers_.size() && routers_[layer].weight != nullptr; }

    // The `count` experts with the highest scores, highest first, for `input`: of this layer, or of the one before for a guess.
    // False if it is not as long as the router's. Any thread, one at a time.
    bool top(uint16_t layer, const ExpertInput &input, size_t count, std::vector<int32_t> &experts);

    float score(int32_t expert) const { return scores_[static_cast<size_t>(expert)]; }  // in the last top()

    // By expert: how many rows of `input`, F32 of [n, 1 or more, tokens], that of the layer before, have it among their `count`
    // highest. Asks at most `most_rows` of them, spread evenly over the tokens. False as for top().
    bool votes(uint16_t layer, const ggml_tensor &input, int64_t most_rows, size_t count, std::vector<uint32_t> &votes);

    // By expert: the probability that the router gives it for `input`, up to a common factor, if its logits go through `gate`
    // (not kOther); and the `count` experts that it selects, in no order. False as for top(). Where llama.cpp selects by groups,
    // or multiplies by other kernels that round differently, the selection may be another than the graph's.
    bool probabilities(uint16_t layer, const ExpertInput &input, RouterGate gate, size_t count,
                       std::vector<float> &probabilities, std::vector<int32_t> &selected);

  private:
    bool logits(uint16_t layer, const ExpertInput &input);
    const float *own_input(uint16_t layer, const ExpertInput &input);
    void select(size_t count, std::vector<int32_t> &experts);

    struct Router {
        const ggml_tensor *weight = nullptr;          // [n, experts]
        const ggml_tensor *bias = nullptr;            // added to the logits, F32
        const ggml_tensor *selection_bias = nullptr;  // added to the probabilities, for the selection only, F32
        // If it has an input of its own: the normalised values times these and `factor`. The experts' is them times the others.
        const ggml_tensor *input_weights = nullptr;   // F32
        const ggml_tensor *expert_weights = nullptr;  // F32
        float factor = 1;
    };
    std::vector<Router> routers_;
    std::vector<float> scores_;  // by expert: logits, then what is selected by
    std::vector<float> own_input_;
    std::vector<std::byte> input_;
    std::vector<int32_t> highest_;
};

// True for tensors that routers have: part of their names in every architecture of llama.cpp.
enum class RouterPart { kNone, kWeight, kBias, kSelectionBias };
RouterPart router_part(const ggml_tensor *tensor);

// The block number in "blk.N.", or -1.
int block_of(const char *tensor_name);

}  // namespace bmoe::backend
