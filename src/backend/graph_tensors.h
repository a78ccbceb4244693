// Small questions about tensors of a graph.
#pragma once

#include <cstdint>

#include "ggml.h"

namespace bmoe::backend {

// The tensor that owns the memory: itself, or what it is a view of.
inline const ggml_tensor *storage(const ggml_tensor *tensor) {
    return tensor->view_src != nullptr ? tensor->view_src : tensor;
}

// What a reshaped tensor is made of.
inline const ggml_tensor *unshaped(const ggml_tensor *tensor) {
    while (tensor->op == GGML_OP_RESHAPE || tensor->op == GGML_OP_VIEW) {
        tensor = tensor->src[0];
    }
    return tensor;
}

// Computes nothing.
inline bool is_view(const ggml_tensor *node) {
    switch (node->op) {
        case GGML_OP_NONE:
        case GGML_OP_VIEW:
        case GGML_OP_RESHAPE:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE:
            return true;
        default:
            return false;
    }
}

// In host memory.
template <typename T>
T &element(const ggml_tensor &tensor, int64_t i0, int64_t i1, int64_t i2 = 0) {
    auto *at = static_cast<char *>(tensor.data) + i0 * tensor.nb[0] + i1 * tensor.nb[1] + i2 * tensor.nb[2];
    return *reinterpret_cast<T *>(at);
}

}  // namespace bmoe::backend
