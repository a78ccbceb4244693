// Runs one ggml operator on the calling thread, with ggml's own kernels: for the cases where their order of additions is not
// that of vec_dot. Each compute thread owns one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml.h"

struct ggml_threadpool;

namespace bmoe::backend {

class SingleThreadGraph {
  public:
    SingleThreadGraph();
    ~SingleThreadGraph();
    SingleThreadGraph(const SingleThreadGraph &) = delete;
    SingleThreadGraph &operator=(const SingleThreadGraph &) = delete;

    // MUL_MAT_ID with a single expert: out[r][0..n_out) = weights (n_out rows of n) times in[r], for r in [0, n_rows).
    void mul_mat_id_one(ggml_type type, int64_t n, int64_t n_out, const void *weights, const float *in, int64_t n_rows,
                        float *out);

  private:
    std::vector<std::byte> memory_;  // tensors and graph
    std::vector<std::byte> work_;
    std::vector<int32_t> ids_;         // all zero
    ggml_threadpool *pool_ = nullptr;  // of one thread: the caller
};

}  // namespace bmoe::backend
