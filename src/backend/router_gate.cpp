#include "backend/router_gate.h"

#include "backend/graph_tensors.h"
#include "ggml.h"

namespace bmoe::backend {

namespace {

bool is_unary(const ggml_tensor *tensor, ggml_unary_op op) {
    return tensor->op == GGML_OP_UNARY && ggml_get_unary_op(tensor) == op;
}

}  // namespace

std::optional<RouterGate> router_gate(const ggml_tensor *weights, const ggml_tensor *ids) {
    // From the gathered weights on they are normalised and scaled.
    bool softmax_of_selected = false;
    const ggml_tensor *gathered = unshaped(weights);
    while (gathered->op == GGML_OP_SCALE || gathered->op == GGML_OP_DIV || gathered->op == GGML_OP_SOFT_MAX) {
        softmax_of_selected = softmax_of_selected || gathered->op == GGML_OP_SOFT_MAX;
        gathered = unshaped(gathered->src[0]);
    }
    if (gathered->op != GGML_OP_GET_ROWS || gathered->src[1]->data != ids->data) {
        return std::nullopt;
    }
    const ggml_tensor *from = unshaped(gathered->src[0]);
    if (from->op == GGML_OP_NONE || from->op == GGML_OP_REPEAT) {
        return std::nullopt;  // of the model: the same for every token
    }
    if (from->op == GGML_OP_MUL_MAT || from->op == GGML_OP_ADD) {
        return softmax_of_selected ? RouterGate::kLogits : RouterGate::kOther;
    }
    if (softmax_of_selected) {
        return RouterGate::kOther;
    }
    if (from->op == GGML_OP_SOFT_MAX) {
        return RouterGate::kSoftmax;
    }
    if (is_unary(from, GGML_UNARY_OP_SIGMOID)) {
        return RouterGate::kSigmoid;
    }
    const bool is_root = from->op == GGML_OP_SQRT && is_unary(unshaped(from->src[0]), GGML_UNARY_OP_SOFTPLUS);
    return is_root ? RouterGate::kSqrtSoftplus : RouterGate::kOther;
}

}  // namespace bmoe::backend
