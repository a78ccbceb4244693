#include "backend/router_guess.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>

#include "backend/graph_tensors.h"
#include "backend/mapped_buffer.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

constexpr std::string_view kPrefix = "blk.";

// Plain rows in memory, not rearranged for other kernels.
bool is_plain(const ggml_tensor *tensor) {
    if (tensor == nullptr || tensor->data == nullptr || tensor->buffer == nullptr || tensor->view_src != nullptr) {
        return false;
    }
    const ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(tensor->buffer);
    return type == ggml_backend_cpu_buffer_type() || type == mapped_buffer_type();
}

void add(const ggml_tensor &bias, std::vector<float> &scores) {
    const auto *values = static_cast<const float *>(bias.data);
    std::transform(scores.begin(), scores.end(), values, scores.begin(), std::plus<>());
}

float sigmoid(float logit) { return 1.0F / (1.0F + std::exp(-logit)); }

float sqrt_softplus(float logit) {
    constexpr float kLinear = 20;  // from here on softplus is its argument
    return std::sqrt(logit > kLinear ? logit : std::log1p(std::exp(logit)));
}

void softmax(const std::vector<float> &logits, std::vector<float> &probabilities) {
    const float most = *std::max_element(logits.begin(), logits.end());
    std::transform(logits.begin(), logits.end(), probabilities.begin(),
                   [&](float logit) { return std::exp(logit - most); });
    const float sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0F);
    std::transform(probabilities.begin(), probabilities.end(), probabilities.begin(),
                   [&](float probability) { return probability / sum; });
}

// The multiplication by the router in the graph, from the experts that are selected by it; nullptr if it is not found.
const ggml_tensor *router_of(const ggml_tensor *ids) {
    constexpr int kDepth = 8;
    const ggml_tensor *at = unshaped(ids);
    for (int depth = 0; at != nullptr && depth < kDepth; ++depth) {
        if (at->op == GGML_OP_MUL_MAT) {
            return router_part(at->src[0]) == RouterPart::kWeight ? at : nullptr;
        }
        at = at->src[0] != nullptr ? unshaped(at->src[0]) : nullptr;
    }
    return nullptr;
}

// A normalised value times a weight for each of its elements, and a factor.
struct Normalised {
    const ggml_tensor *norm = nullptr;
    const ggml_tensor *weights = nullptr;
    float factor = 1;
};

std::optional<Normalised> normalised(const ggml_tensor *tensor) {
    Normalised parts;
    for (tensor = unshaped(tensor); tensor->op == GGML_OP_MUL || tensor->op == GGML_OP_SCALE;
         tensor = unshaped(tensor->src[0])) {
        if (tensor->op == GGML_OP_MUL) {
            const ggml_tensor *weights = tensor->src[1];
            if (parts.weights != nullptr || !is_plain(weights) || weights->type != GGML_TYPE_F32 ||
                ggml_nelements(weights) != tensor->ne[0]) {
                return std::nullopt;
            }
            parts.weights = weights;
            continue;
        }
        float scale_and_bias[2];
        std::memcpy(scale_and_bias, tensor->op_params, sizeof(scale_and_bias));
        if (scale_and_bias[1] != 0) {
            return std::nullopt;
        }
        parts.factor *= scale_and_bias[0];
    }
    parts.norm = tensor;
    return tensor->op == GGML_OP_RMS_NORM && parts.weights != nullptr ? std::optional(parts) : std::nullopt;
}

bool same_norm(const ggml_tensor *a, const ggml_tensor *b) {
    return unshaped(a->src[0]) == unshaped(b->src[0]) &&
           std::memcmp(a->op_params, b->op_params, sizeof(a->op_params)) == 0;
}

}  // namespace

int block_of(const char *tensor_name) {
    const std::string_view name = tensor_name;
    int block = -1;
    if (name.substr(0, kPrefix.size()) == kPrefix) {
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), block);
    }
    return block;
}

RouterPart router_part(const ggml_tensor *tensor) {
    const std::string_view name = tensor->name;
    const auto ends = [&](std::string_view end) {
        return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
    };
    if (ends(".ffn_gate_inp.weight")) {
        return RouterPart::kWeight;
    }
    if (ends(".ffn_gate_inp.bias")) {
        return RouterPart::kBias;
    }
    return ends(".exp_probs_b.bias") ? RouterPart::kSelectionBias : RouterPart::kNone;
}

void RouterGuess::look_at(const ggml_tensor *node, uint16_t layer) {
    Router &router = routers_[layer];
    if (node->op == GGML_OP_MUL_MAT && router_part(node->src[0]) == RouterPart::kWeight) {
        const bool usable = is_plain(node->src[0]) && ggml_get_type_traits_cpu(node->src[0]->type)->vec_dot != nullptr;
        router.weight = usable ? node->src[0] : nullptr;
    }
    if (node->op == GGML_OP_ADD && is_plain(node->src[1]) && node->src[1]->type == GGML_TYPE_F32) {
        const RouterPart part = router_part(node->src[1]);
        router.bias = part == RouterPart::kBias ? node->src[1] : router.bias;
        router.selection_bias = part == RouterPart::kSelectionBias ? node->src[1] : router.selection_bias;
    }
}

void RouterGuess::look_at_product(const ggml_tensor *product, uint16_t layer) {
    const ggml_tensor *router = router_of(product->src[2]);
    if (router == nullptr || unshaped(router->src[1]) == unshaped(product->src[1])) {
        return;
    }
    const std::optional<Normalised> own = normalised(router->src[1]);
    const std::optional<Normalised> experts = normalised(product->src[1]);
    if (own && experts && same_norm(own->norm, experts->norm)) {
        routers_[layer].input_weights = own->weights;
        routers_[layer].expert_weights = experts->weights;
        routers_[layer].factor = own->factor / experts->factor;
    }
}

// The router's input. Not to the bit the graph's: it is found by a division.
const float *RouterGuess::own_input(uint16_t layer, const ExpertInput &input) {
    const Router &router = routers_[layer];
    const ggml_tensor *expert_weights = routers_[input.layer].expert_weights;
    if (router.input_weights == nullptr || expert_weights == nullptr || expert_weights->ne[0] != input.n) {
        return input.row;
    }
    const auto *own = static_cast<const float *>(router.input_weights->data);
    const auto *experts = static_cast<const float *>(expert_weights->data);
    own_input_.resize(static_cast<size_t>(input.n));
    for (size_t i = 0; i < own_input_.size(); ++i) {
        const float value = input.row[i] / experts[i] * router.factor * own[i];
        own_input_[i] = std::isfinite(value) ? value : 0;  // what a weight of 0 has taken away is lost
    }
    return own_input_.data();
}

// Computes the router's logits in scores_.
bool RouterGuess::logits(uint16_t layer, const ExpertInput &input) {
    const Router &router = routers_[layer];
    const int64_t n = input.n;
    if (router.weight->ne[0] != n) {
        return false;
    }
    const auto *traits = ggml_get_type_traits_cpu(router.weight->type);
    const float *own = own_input(layer, input);
    const void *row = own;
    if (traits->vec_dot_type != GGML_TYPE_F32) {
        input_.resize(ggml_row_size(traits->vec_dot_type, n));
        ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float(own, input_.data(), n);
        row = input_.data();
    }
    const auto n_expert = static_cast<size_t>(router.weight->ne[1]);
    scores_.resize(n_expert);
    const auto *weights = static_cast<const char *>(router.weight->data);
    for (size_t e = 0; e < n_expert; ++e) {
        traits->vec_dot(static_cast<int>(n), &scores_[e], 0, weights + e * router.weight->nb[1], 0, row, 0, 1);
    }
    if (router.bias != nullptr) {
        add(*router.bias, scores_);
    }
    return true;
}

// The highest of scores_, highest first.
void RouterGuess::select(size_t count, std::vector<int32_t> &experts) {
    const size_t n_expert = scores_.size();
    // No number, from a damaged file: nothing can be sorted by it.
    std::replace_if(
        scores_.begin(), scores_.end(), [](float score) { return std::isnan(score); },
        -std::numeric_limits<float>::infinity());
    experts.resize(n_expert);
    std::iota(experts.begin(), experts.end(), 0);
    count = std::min(count, n_expert);
    std::partial_sort(experts.begin(), experts.begin() + static_cast<ptrdiff_t>(count), experts.end(),
                      [&](int32_t a, int32_t b) { return scores_[a] > scores_[b]; });
    experts.resize(count);
}

bool RouterGuess::top(uint16_t layer, const ExpertInput &input, size_t count, std::vector<int32_t> &experts) {
    if (!logits(layer, input)) {
        return false;
    }
    if (const ggml_tensor *bias = routers_[layer].selection_bias) {
        // The bias was learned for probabilities; of the functions in use the sigmoid is the usual one beside it.
        std::transform(scores_.begin(), scores_.end(), scores_.begin(), sigmoid);
        add(*bias, scores_);
    }
    select(count, experts);
    return true;
}

bool RouterGuess::probabilities(uint16_t layer, const ExpertInput &input, RouterGate gate, size_t count,
                                std::vector<float> &probabilities, std::vector<int32_t> &selected) {
    if (!logits(layer, input)) {
        return false;
    }
    probabilities.resize(scores_.size());
    if (gate == RouterGate::kSigmoid) {
        std::transform(scores_.begin(), scores_.end(), probabilities.begin(), sigmoid);
    } else if (gate == RouterGate::kSqrtSoftplus) {
        std::transform(scores_.begin(), scores_.end(), probabilities.begin(), sqrt_softplus);
    } else {
        softmax(scores_, probabilities);
    }
    if (const ggml_tensor *bias = routers_[layer].selection_bias) {
        if (gate != RouterGate::kLogits) {
            std::copy(probabilities.begin(), probabilities.end(), scores_.begin());
        }
        add(*bias, scores_);
    }
    select(count, selected);
    return true;
}

bool RouterGuess::votes(uint16_t layer, const ggml_tensor &input, int64_t most_rows, size_t count,
                        std::vector<uint32_t> &votes) {
    votes.assign(static_cast<size_t>(routers_[layer].weight->ne[1]), 0);
    const int64_t rows = std::min(most_rows, input.ne[2]);
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t token = r * input.ne[2] / rows;
        const auto *row = reinterpret_cast<const float *>(static_cast<const char *>(input.data) + token * input.nb[2]);
        if (!top(layer, {row, input.ne[0], static_cast<uint16_t>(layer - 1)}, count, highest_)) {
            return false;
        }
        for (const int32_t expert : highest_) {
            ++votes[static_cast<size_t>(expert)];
        }
    }
    return true;
}

}  // namespace bmoe::backend
