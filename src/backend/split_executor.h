// Runs one graph split of the scheduler: expert products by our kernels, everything else by ggml's CPU backend, all in one
// pass of the shared thread pool.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/expert_flow.h"
#include "backend/expert_matmul.h"
#include "ggml-backend.h"

namespace bmoe::backend {

// One thread calls it; it computes in the team of the thread pool.
class SplitExecutor {
  public:
    SplitExecutor();
    ~SplitExecutor();
    SplitExecutor(const SplitExecutor &) = delete;
    SplitExecutor &operator=(const SplitExecutor &) = delete;

    // The pool the CPU backend of the same context computes in: two pools would spin against each other. nullptr: a pool is
    // made for every split, which is slow.
    void set_threadpool(ggml_threadpool *pool);
    void set_threads(int n_threads);
    void set_abort_callback(ggml_abort_callback callback, void *data);

    // GGML_STATUS_FAILED after an error, which the experts' store then holds.
    ggml_status compute(ggml_cgraph *graph);

  private:
    struct Segment;
    struct Phase;
    struct Conversion;
    Segment next_segment(ggml_cgraph *graph, int begin, int n_nodes);
    ggml_status run_segment(ggml_cgraph *graph, const Segment &segment);
    void start_shadow(size_t n_nodes);
    int add_flow(ggml_cgraph *graph, const Segment &segment);
    bool is_used_after(ggml_cgraph *graph, int begin, int end) const;
    int add_phase(ggml_cgraph *graph, int begin, int end);
    const ConvertedRows *converted(const ggml_tensor *source, ggml_type type);
    void add_custom(void (*run)(ggml_tensor *, int, int, void *), void *data);

    ggml_backend_t cpu_ = nullptr;
    int n_threads_ = 1;

    // The split as it is computed: products replaced by custom nodes. Memory is kept from split to split.
    std::vector<std::byte> graph_memory_;
    ggml_context *context_ = nullptr;
    ggml_cgraph *shadow_ = nullptr;
    std::vector<BankRef *> banks_;  // of the current segment, in the order they are multiplied by
    ExpertFlow flow_;               // a token's products
    std::vector<ggml_tensor *> first_, between_;
    std::vector<std::unique_ptr<Phase>> phases_;  // an ubatch's products, one dependency after the other
    size_t n_phases_ = 0;
    std::vector<std::unique_ptr<Conversion>> conversions_;
    size_t n_conversions_ = 0;
};

}  // namespace bmoe::backend
