// The operators between two expert products, for the row of one selected expert: ggml's own, on views of one row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cache_lines.h"
#include "ggml.h"

namespace bmoe::backend {

// Memory for the values between the products, apart from the graph's: there a later operator may own what an earlier one of
// another expert still needs.
class RowMemory {
  public:
    // `tensors` are products and operators of shape [n, top_k, 1]; views share the memory of what they show.
    void assign(std::span<ggml_tensor *const> products, std::span<ggml_tensor *const> operators, int64_t top_k);

    // Where row `rank` of `tensor` is, or nullptr if it is none of them.
    std::byte *row(const ggml_tensor *tensor, int64_t rank) const;

  private:
    struct Region {
        const ggml_tensor *storage = nullptr;
        size_t offset = 0;
        size_t row_bytes = 0;  // whole cache lines
    };
    const Region *region(const ggml_tensor *storage) const;

    std::vector<Region> regions_;
    CacheLines lines_;
};

// One per thread.
class RowChain {
  public:
    RowChain();
    ~RowChain();
    RowChain(const RowChain &) = delete;
    RowChain &operator=(const RowChain &) = delete;

    // True if each of the operators works row by row, on rows of `products`, of each other, and of others that nobody writes to
    // meanwhile.
    static bool possible(std::span<ggml_tensor *const> products, std::span<ggml_tensor *const> operators,
                         const ggml_tensor *ids);

    void assign(std::span<ggml_tensor *const> operators, const ggml_tensor *ids, const RowMemory &memory);

    // Computes the operators for the row of rank `rank`.
    void run(int64_t rank);

  private:
    // A tensor of one row, and whose row of which tensor it shows.
    struct Row {
        ggml_tensor *tensor = nullptr;
        const ggml_tensor *of = nullptr;
    };
    ggml_tensor *row_of(const ggml_tensor *tensor);
    std::byte *address(const ggml_tensor *tensor, int64_t rank) const;

    const RowMemory *memory_ = nullptr;
    const ggml_tensor *ids_ = nullptr;
    std::vector<std::byte> tensor_memory_;
    ggml_context *context_ = nullptr;  // of tensors in tensor_memory_
    std::vector<Row> rows_;
    std::vector<ggml_tensor *> operators_;  // of rows_, in order
};

}  // namespace bmoe::backend
