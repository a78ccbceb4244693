// What becomes of a router's logits in the graph, read off the graph: by which function they turn into the experts' weights.
#pragma once

#include <optional>

struct ggml_tensor;

namespace bmoe::backend {

enum class RouterGate {
    kOther,
    kSoftmax,
    kSigmoid,
    kSqrtSoftplus,
    kLogits,  // softmax over the selected experts' logits
};

// `weights` are router weights if they were gathered by `ids` from what a router gives. Empty if they are something else: models
// also multiply the experts' outputs by factors of the same shape.
std::optional<RouterGate> router_gate(const ggml_tensor *weights, const ggml_tensor *ids);

}  // namespace bmoe::backend
