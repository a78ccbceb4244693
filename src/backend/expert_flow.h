// One token through the experts of a layer, as a flow of data: a thread takes whatever can be computed now. An expert's down
// product follows as soon as its own gate and up products are done, whichever experts are still being read.
//
// Equal bits: every row is computed by ggml's own kernels exactly as in a pass operator by operator; only the order of rows
// differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cache_lines.h"
#include "backend/row_chain.h"
#include "backend/row_ranges.h"
#include "ggml.h"

namespace bmoe::backend {

struct BankRef;
class ExpertStore;
class LayerVisit;

// Nodes of a graph split: first products (gate and up), operators, then the product by the down experts.
struct FlowNodes {
    std::span<ggml_tensor *const> first;
    std::span<ggml_tensor *const> between;
    ggml_tensor *last = nullptr;
};

class ExpertFlow {
  public:
    ExpertFlow();
    ~ExpertFlow();
    ExpertFlow(const ExpertFlow &) = delete;
    ExpertFlow &operator=(const ExpertFlow &) = delete;

    // True if these nodes can be computed as a flow: one token, operators that work row by row, no memory that the graph's
    // allocator has given to two of them in turn.
    static bool possible(const FlowNodes &nodes);

    // Converts the input. Not while run() is active. Keeps its memory from one use to the next.
    void prepare(const FlowNodes &nodes, ExpertStore &store, int n_threads);

    // Called by every thread of the team; returns when no work is left to take. A thread with nothing to compute sleeps until
    // a slice arrives or another thread makes work for it.
    void run(int thread);

  private:
    struct Item;
    struct Expert;
    // Each on cache lines of its own.
    class Rows {
      public:
        void resize(ggml_type type, int64_t n, int64_t rows);
        std::byte *operator[](int64_t row) const { return lines_.data() + static_cast<size_t>(row) * stride_; }

      private:
        CacheLines lines_;
        size_t stride_ = 0;  // bytes
    };
    bool ready(const Item &item) const;
    void multiply(const Item &item, const RowRange &range) const;
    void finish(size_t item, const RowRange &range, int thread);
    void complete_hidden(uint32_t index, int thread);

    ExpertStore *store_ = nullptr;
    LayerVisit *visit_ = nullptr;
    FlowNodes nodes_;
    std::vector<ggml_tensor *> first_, between_;
    const float *look_input_ = nullptr;  // a copy of the input if the next layer is to be guessed from it
    std::vector<float> look_memory_;
    int n_threads_ = 1;
    Rows input_;   // converted, a row for each row of the source
    Rows hidden_;  // converted, a row for each rank
    std::unique_ptr<RowMemory> memory_;
    std::vector<std::unique_ptr<RowChain>> chains_;  // per thread

    std::vector<Item> items_;
    RowRanges ranges_;  // of the weight rows of each item
    std::unique_ptr<Expert[]> experts_;
    size_t experts_capacity_ = 0;
};

}  // namespace bmoe::backend
