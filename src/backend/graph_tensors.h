// Small questions about tensors of a graph.
#pragma once

#include "ggml.h"

namespace bmoe::backend {

// The tensor that owns the memory: itself, or what it is a view of.
inline const ggml_tensor *storage(const ggml_tensor *tensor) {
    return tensor->view_src != nullptr ? tensor->view_src : tensor;
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

}  // namespace bmoe::backend
