#include "backend/single_thread_graph.h"

#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {
constexpr size_t kNodes = 8;
}

SingleThreadGraph::SingleThreadGraph()
    : memory_(kNodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(kNodes, false)) {}

SingleThreadGraph::~SingleThreadGraph() {
    if (pool_ != nullptr) {
        ggml_threadpool_free(pool_);
    }
}

void SingleThreadGraph::mul_mat_id_one(ggml_type type, int64_t n, int64_t n_out, const void *weights, const float *in,
                                       int64_t n_rows, float *out) {
    if (pool_ == nullptr) {
        ggml_threadpool_params params = ggml_threadpool_params_default(1);
        pool_ = ggml_threadpool_new(&params);
    }
    if (static_cast<int64_t>(ids_.size()) < n_rows) {
        ids_.assign(n_rows, 0);
    }
    ggml_context *context = ggml_init({memory_.size(), memory_.data(), true});
    ggml_tensor *a = ggml_new_tensor_3d(context, type, n, n_out, 1);
    ggml_tensor *b = ggml_new_tensor_3d(context, GGML_TYPE_F32, n, 1, n_rows);
    ggml_tensor *ids = ggml_new_tensor_2d(context, GGML_TYPE_I32, 1, n_rows);
    ggml_tensor *product = ggml_mul_mat_id(context, a, b, ids);
    a->data = const_cast<void *>(weights);
    b->data = const_cast<float *>(in);
    ids->data = ids_.data();
    product->data = out;
    ggml_cgraph *graph = ggml_new_graph_custom(context, kNodes, false);
    ggml_build_forward_expand(graph, product);
    ggml_cplan plan = ggml_graph_plan(graph, 1, pool_);
    if (work_.size() < plan.work_size) {
        work_.resize(plan.work_size);
    }
    plan.work_data = reinterpret_cast<uint8_t *>(work_.data());
    ggml_graph_compute(graph, &plan);
    ggml_free(context);
}

}  // namespace bmoe::backend
