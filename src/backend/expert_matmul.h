// The multiplication by experts: MUL_MAT_ID with a pointer per expert instead of one tensor.
//
// For every (expert, row) it does what ggml's CPU MUL_MAT_ID does, in the same order of additions: the activation row is
// converted to the weight type's vec_dot type and multiplied by vec_dot. Where ggml takes another path for many tokens per
// expert (its IQ panel GEMM), ggml's own operator is run on the one expert. So the bits are those of a resident run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/row_ranges.h"
#include "cache/slot_pool.h"
#include "ggml.h"

namespace bmoe::backend {

struct BankRef;
class ExpertStore;
class LayerVisit;
class SingleThreadGraph;

// Activations in the type that vec_dot wants. Shared by products with the same input.
struct ConvertedRows {
    const ggml_tensor *source = nullptr;  // F32: [n, 1 or top_k, tokens]
    ggml_type type = GGML_TYPE_F32;
    const std::byte *data = nullptr;  // row (i1, i2) at data + i1 * stride1 + i2 * stride2
    size_t stride1 = 0;
    size_t stride2 = 0;
    std::byte *converted = nullptr;  // where convert() writes; nullptr if the source is used as it is
};

// Converts this thread's share. Thread-safe for distinct `thread`.
void convert_rows(const ConvertedRows &rows, int thread, int n_threads);

// True if ggml can multiply by this type the way described above, from an F32 activation.
bool can_multiply(ggml_type weights);

// One MUL_MAT_ID node.
struct ExpertProduct {
    ggml_tensor *node = nullptr;  // src[0] lives in the expert buffer, its extra is a BankRef
    const BankRef *bank = nullptr;
    const ConvertedRows *activations = nullptr;
};

// Products without dependencies among each other (gate and up), multiplied by all threads as their slices arrive.
class ProductPhase {
  public:
    ProductPhase();
    ~ProductPhase();
    ProductPhase(const ProductPhase &) = delete;
    ProductPhase &operator=(const ProductPhase &) = delete;

    // Not while run() is active. Keeps its memory from one use to the next.
    void prepare(std::span<const ExpertProduct> products, LayerVisit &visit, int n_threads);

    // Called by every thread of the team; returns when no work is left to take. Ready slices are multiplied first; when none
    // is ready the thread sleeps until one arrives.
    void run(int thread, ExpertStore &store);

  private:
    struct Item;
    struct Scratch;
    const cache::Slice &slice(const Item &item) const;
    void multiply(const Item &item, const RowRange &range, Scratch &scratch) const;
    void multiply_with_ggml(const Item &item, const RowRange &range, Scratch &scratch) const;

    LayerVisit *visit_ = nullptr;
    std::vector<ExpertProduct> products_;
    std::vector<Item> items_;
    RowRanges ranges_;                               // of the weight rows of each item
    std::vector<std::unique_ptr<Scratch>> scratch_;  // per thread
};

}  // namespace bmoe::backend
