#include "tests/backend/routed_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "ggml-cpu.h"

namespace bmoe::backend::test {

namespace {

constexpr const char *kProjections[] = {"gate", "up", "down"};

std::string name_of(const char *projection, uint32_t layer, const char *what) {
    return "blk." + std::to_string(layer) + ".ffn_" + projection + "_exps." + what;
}

// Not contiguous for the ids, which are a part of all experts in order.
template <typename T>
std::vector<T> contents(const ggml_tensor *tensor, int64_t rows, int64_t row_stride) {
    const int64_t n = ggml_nelements(tensor) / rows;
    std::vector<T> values(static_cast<size_t>(rows * n));
    for (int64_t row = 0; row < rows; ++row) {
        std::memcpy(&values[row * n], static_cast<const char *>(tensor->data) + row * row_stride, n * sizeof(T));
    }
    return values;
}

}  // namespace

struct RoutedLayers::Graph {
    explicit Graph(int64_t tokens)
        : n_tokens(tokens),
          context(ggml_init({96 * ggml_tensor_overhead() + 3 * ggml_graph_overhead(), nullptr, true})) {}
    ~Graph() {
        ggml_backend_buffer_free(buffer);
        ggml_free(context);
    }
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;

    // What nothing has written yet is no number.
    void allocate() {
        buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
        ggml_backend_buffer_clear(buffer, 0xFF);
    }

    int64_t n_tokens;
    ggml_context *context;
    ggml_backend_buffer_t buffer = nullptr;
    ggml_tensor *x = nullptr;
    ggml_tensor *ids = nullptr;
    ggml_tensor *weights = nullptr;
    ggml_tensor *hidden = nullptr;
    ggml_tensor *out = nullptr;
};

RoutedLayers::RoutedLayers(const Shape &shape, const StoreOptions &options, const Layout &layout, const WrapFile &wrap)
    : layout_(layout), experts_(shape, options, wrap), cpu_(ggml_backend_cpu_init()) {
    ggml_backend_cpu_set_n_threads(cpu_, 1);
    context_ = ggml_init({16 * (shape.n_layers + 1) * ggml_tensor_overhead(), nullptr, true});
    ggml_tensor *input = ggml_new_tensor_1d(context_, GGML_TYPE_F32, shape.n_embd);
    std::vector<ggml_tensor *> nodes;
    for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
        for (std::vector<ggml_tensor *> *routers : {&routers_, &known_routers_}) {
            routers->push_back(ggml_new_tensor_2d(context_, GGML_TYPE_F32, shape.n_embd, shape.n_expert));
            ggml_set_name(routers->back(), ("blk." + std::to_string(layer) + ".ffn_gate_inp.weight").c_str());
        }
        nodes.push_back(ggml_mul_mat(context_, known_routers_.back(), input));
        for (const char *projection : kProjections) {
            const int64_t n = experts_.resident(projection, layer)->ne[1];
            ggml_set_name(ggml_new_tensor_2d(context_, GGML_TYPE_F32, n, shape.n_expert),
                          name_of(projection, layer, "bias").c_str());
            ggml_set_name(ggml_new_tensor_1d(context_, GGML_TYPE_F32, shape.n_expert),
                          name_of(projection, layer, "scale").c_str());
        }
    }
    buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(context_, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_set_usage(buffer_, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    std::normal_distribution<float> normal;
    for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
        for (ggml_tensor *router : {routers_[layer], known_routers_[layer]}) {
            auto *values = static_cast<float *>(router->data);
            std::fill_n(values, ggml_nelements(router), 0.0F);
            for (int64_t e = 0; e < router->ne[1]; ++e) {
                values[e * router->ne[0] + e] = 1;
            }
        }
        for (const char *projection : kProjections) {
            for (const char *what : {"bias", "scale"}) {
                ggml_tensor *tensor = ggml_get_tensor(context_, name_of(projection, layer, what).c_str());
                std::generate_n(static_cast<float *>(tensor->data), ggml_nelements(tensor),
                                [&] { return normal(random_); });
            }
        }
        store().look_at_node(nodes[layer]);
    }
}

RoutedLayers::~RoutedLayers() {
    ggml_backend_buffer_free(buffer_);
    ggml_free(context_);
    ggml_backend_free(cpu_);
}

void RoutedLayers::reverse_known_routers() {
    for (ggml_tensor *router : known_routers_) {
        auto *values = static_cast<float *>(router->data);
        std::transform(values, values + ggml_nelements(router), values, std::negate<>());
    }
}

std::vector<float> RoutedLayers::random_logits(uint32_t n_tokens, float deviation) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> logits(size_t{shape().n_expert} * n_tokens);
    std::generate(logits.begin(), logits.end(), [&] { return normal(random_); });
    return logits;
}

ggml_tensor *RoutedLayers::scale(ggml_tensor *product, const char *projection, uint32_t layer, Graph &graph) const {
    if (!layout_.factors) {
        return product;
    }
    const int64_t n_expert = shape().n_expert;
    ggml_tensor *factors = ggml_get_tensor(context_, name_of(projection, layer, "scale").c_str());
    factors = ggml_reshape_3d(graph.context, factors, 1, n_expert, 1);
    factors = ggml_repeat_4d(graph.context, factors, 1, n_expert, graph.n_tokens, 1);
    return ggml_mul(graph.context, product, ggml_get_rows(graph.context, factors, graph.ids));
}

ggml_tensor *RoutedLayers::bias(ggml_tensor *product, const char *projection, uint32_t layer, Graph &graph) const {
    ggml_tensor *biases = ggml_get_tensor(context_, name_of(projection, layer, "bias").c_str());
    return layout_.biases ? ggml_add_id(graph.context, product, biases, graph.ids) : product;
}

// From the routing on.
void RoutedLayers::add_experts(Graph &graph, uint32_t layer, bool streamed) const {
    const auto product = [&](const char *projection, ggml_tensor *input) {
        ggml_tensor *weight = streamed ? experts_.streamed(projection, layer) : experts_.resident(projection, layer);
        ggml_tensor *node = ggml_mul_mat_id(graph.context, weight, input, graph.ids);
        if (layout_.no_flow) {
            ggml_set_output(node);
        }
        return bias(scale(node, projection, layer, graph), projection, layer, graph);
    };
    ggml_tensor *x = ggml_reshape_3d(graph.context, graph.x, graph.x->ne[0], 1, graph.n_tokens);
    ggml_tensor *up = product("up", x);
    ggml_tensor *gate = product("gate", x);
    graph.hidden = ggml_swiglu_split(graph.context, gate, up);
    graph.out = ggml_mul(graph.context, product("down", graph.hidden), graph.weights);
}

RoutedLayers::Visit RoutedLayers::visit(SplitExecutor &executor, uint32_t layer, const std::vector<float> &logits) {
    const int64_t n_expert = shape().n_expert;
    const int64_t n_tokens = static_cast<int64_t>(logits.size()) / n_expert;
    Graph graph(n_tokens);
    ggml_context *context = graph.context;
    graph.x = ggml_new_tensor_2d(context, GGML_TYPE_F32, shape().n_embd, n_tokens);
    ggml_tensor *probabilities = ggml_soft_max(context, ggml_mul_mat(context, routers_[layer], graph.x));
    graph.ids = ggml_argsort_top_k(context, probabilities, static_cast<int>(shape().top_k));
    graph.weights = ggml_get_rows(context, ggml_reshape_3d(context, probabilities, 1, n_expert, n_tokens), graph.ids);
    if (layout_.normalised) {
        ggml_tensor *weights = ggml_reshape_2d(context, graph.weights, shape().top_k, n_tokens);
        weights = ggml_div(context, weights, ggml_sum_rows(context, weights));
        graph.weights = ggml_reshape_3d(context, weights, 1, shape().top_k, n_tokens);
    }
    ggml_cgraph *whole = ggml_new_graph(context);
    ggml_build_forward_expand(whole, graph.weights);
    const int n_router_nodes = ggml_graph_n_nodes(whole);
    ggml_cgraph *router = ggml_new_graph(context);
    ggml_build_forward_expand(router, graph.weights);
    add_experts(graph, layer, true);
    ggml_build_forward_expand(whole, graph.hidden);
    const int n_hidden_nodes = ggml_graph_n_nodes(whole);
    ggml_build_forward_expand(whole, graph.out);
    graph.allocate();

    std::normal_distribution<float> normal;
    input_.resize(static_cast<size_t>(ggml_nelements(graph.x)));
    std::generate(input_.begin(), input_.end(), [&] { return normal(random_); });
    for (int64_t token = 0; token < n_tokens; ++token) {
        std::copy_n(&logits[token * n_expert], n_expert, &input_[token * shape().n_embd]);
    }
    ggml_backend_tensor_set(graph.x, input_.data(), 0, ggml_nbytes(graph.x));

    Visit visit;
    EXPECT_EQ(ggml_backend_graph_compute(cpu_, router), GGML_STATUS_SUCCESS);
    visit.router_ids = contents<int32_t>(graph.ids, n_tokens, static_cast<int64_t>(graph.ids->nb[1]));
    visit.router_weights = contents<float>(graph.weights, 1, 0);
    const int ends[] = {layout_.two_splits ? n_hidden_nodes : n_router_nodes, ggml_graph_n_nodes(whole)};
    int at = n_router_nodes;
    for (const int end : ends) {
        if (at == end || visit.status != GGML_STATUS_SUCCESS) {
            continue;
        }
        ggml_context *split_context = ggml_init({ggml_graph_overhead(), nullptr, true});
        ggml_cgraph *split = ggml_new_graph(split_context);
        for (; at < end; ++at) {
            ggml_graph_add_node(split, ggml_graph_node(whole, at));
        }
        visit.status = executor.compute(split);
        ggml_free(split_context);
    }
    visit.ids = contents<int32_t>(graph.ids, n_tokens, static_cast<int64_t>(graph.ids->nb[1]));
    visit.weights = contents<float>(graph.weights, 1, 0);
    visit.out = contents<float>(graph.out, 1, 0);
    return visit;
}

void RoutedLayers::expect_right(const Visit &visit, uint32_t layer) {
    const int64_t top_k = shape().top_k;
    const auto n_tokens = static_cast<int64_t>(visit.ids.size()) / top_k;
    Graph graph(n_tokens);
    graph.x = ggml_new_tensor_2d(graph.context, GGML_TYPE_F32, shape().n_embd, n_tokens);
    graph.ids = ggml_new_tensor_2d(graph.context, GGML_TYPE_I32, top_k, n_tokens);
    graph.weights = ggml_new_tensor_3d(graph.context, GGML_TYPE_F32, 1, top_k, n_tokens);
    add_experts(graph, layer, false);
    ggml_cgraph *whole = ggml_new_graph(graph.context);
    ggml_build_forward_expand(whole, graph.out);
    graph.allocate();
    ggml_backend_tensor_set(graph.x, input_.data(), 0, ggml_nbytes(graph.x));
    ggml_backend_tensor_set(graph.ids, visit.ids.data(), 0, ggml_nbytes(graph.ids));
    ggml_backend_tensor_set(graph.weights, visit.weights.data(), 0, ggml_nbytes(graph.weights));
    ASSERT_EQ(ggml_backend_graph_compute(cpu_, whole), GGML_STATUS_SUCCESS);
    const std::vector<float> expected = contents<float>(graph.out, 1, 0);
    ASSERT_EQ(visit.out.size(), expected.size());
    const auto n = static_cast<size_t>(graph.out->ne[0]);
    for (size_t row = 0; row < visit.weights.size(); ++row) {
        if (visit.weights[row] == 0) {
            ASSERT_TRUE(std::all_of(&visit.out[row * n], &visit.out[row * n] + n, [](float v) { return v == 0; }))
                << "row " << row;
        } else {
            ASSERT_EQ(std::memcmp(&visit.out[row * n], &expected[row * n], n * sizeof(float)), 0) << "row " << row;
        }
    }
}

}  // namespace bmoe::backend::test
