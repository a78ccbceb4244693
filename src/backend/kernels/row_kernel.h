// The product of weight rows and activation rows: what ggml computes with one vec_dot per pair, several pairs at a time.
//
// A kernel of bmoe's own gives the bits of ggml's vec_dot for every input: the same integers, and the same floating point
// operations in the same order. That depends on how ggml was compiled, so it is tried out before the kernel is used.
#pragma once

#include <string>

#include "backend/kernels/row_product.h"
#include "ggml.h"

namespace bmoe::backend {

struct RowKernel {
    ggml_type type = GGML_TYPE_COUNT;  // of the weights
    const char *name = "ggml";
    void (*own)(const RowProduct &product) = nullptr;  // nullptr: vec_dot
    int64_t own_multiple = 1;                          // own needs n to be a multiple of it; vec_dot otherwise
    std::string note =
        {};  // why own is not used on a processor that could, one sentence; empty if there is nothing to say

    void multiply(const RowProduct &product) const;
};

// The kernel for weights of a type that ggml has a vec_dot for. Thread-safe; the first call tries out all kernels, which takes
// some milliseconds.
const RowKernel &row_kernel(ggml_type weights);

// ggml's vec_dot for each pair.
void multiply_with_vec_dot(ggml_type weights, const RowProduct &product);

}  // namespace bmoe::backend
