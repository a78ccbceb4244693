#include "backend/split_executor.h"

#include <algorithm>

#include "backend/expert_flow.h"
#include "backend/expert_store.h"
#include "backend/ggml_device.h"
#include "backend/graph_tensors.h"
#include "backend/layer_visit.h"
#include "base/clock.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

BankRef *bank_of(const ggml_tensor *node) {
    return node->op == GGML_OP_MUL_MAT_ID ? placed_bank(node->src[0]) : nullptr;
}

// Router weights look like [1, top_k, tokens] and multiply the experts' outputs. So do the experts' own factors, which are
// gathered in the split itself.
bool looks_like_weights(const ggml_tensor *tensor, const ggml_tensor *ids) {
    return tensor != nullptr && tensor->type == GGML_TYPE_F32 && tensor->ne[0] == 1 && tensor->ne[1] == ids->ne[0] &&
           tensor->ne[2] == ids->ne[1] && tensor->ne[3] == 1;
}

void run_conversion(ggml_tensor *, int thread, int n_threads, void *data) {
    convert_rows(*static_cast<const ConvertedRows *>(data), thread, n_threads);
}

}  // namespace

// Part of a split that belongs to one visit of an expert layer, as indices of its nodes.
struct SplitExecutor::Segment {
    int begin = 0;
    int end = 0;
    const ggml_tensor *ids = nullptr;
    const ggml_tensor *weights = nullptr;
    const ggml_tensor *input = nullptr;  // of the first product, if it is not computed in the segment
};

struct SplitExecutor::Phase {
    ProductPhase work;
    ExpertStore *store = nullptr;
    std::vector<ExpertProduct> products;
};

struct SplitExecutor::Conversion {
    ConvertedRows rows;
    std::vector<std::byte> buffer;
};

SplitExecutor::SplitExecutor() : cpu_(ggml_backend_cpu_init()) {}

SplitExecutor::~SplitExecutor() {
    ggml_free(context_);
    ggml_backend_free(cpu_);
}

void SplitExecutor::set_threadpool(ggml_threadpool *pool) { ggml_backend_cpu_set_threadpool(cpu_, pool); }

void SplitExecutor::set_threads(int n_threads) {
    n_threads_ = n_threads;
    ggml_backend_cpu_set_n_threads(cpu_, n_threads);
}

void SplitExecutor::set_abort_callback(ggml_abort_callback callback, void *data) {
    ggml_backend_cpu_set_abort_callback(cpu_, callback, data);
}

ggml_status SplitExecutor::compute(ggml_cgraph *graph) {
    const uint64_t start = now_ns();
    const int n_nodes = ggml_graph_n_nodes(graph);
    ExpertStore *store = nullptr;
    ggml_status status = GGML_STATUS_SUCCESS;
    for (int at = 0; at < n_nodes && status == GGML_STATUS_SUCCESS;) {
        const Segment segment = next_segment(graph, at, n_nodes);
        status = run_segment(graph, segment);
        if (!banks_.empty()) {
            store = banks_.front()->store;
        }
        at = segment.end;
    }
    if (store != nullptr) {
        store->count_split(now_ns() - start, store->visit().all_resident());
    }
    return status;
}

// Ends where another visit must begin: another layer or routing, a bank for the second time, or a routing that is computed
// in the segment itself. Collects the segment's banks in banks_.
SplitExecutor::Segment SplitExecutor::next_segment(ggml_cgraph *graph, int begin, int n_nodes) {
    Segment segment;
    segment.begin = begin;
    segment.end = n_nodes;
    banks_.clear();
    for (int i = begin; i < n_nodes; ++i) {
        ggml_tensor *node = ggml_graph_node(graph, i);
        const auto is_computed_here = [&](const ggml_tensor *tensor) {
            for (int j = begin; j < i; ++j) {
                const ggml_tensor *other = ggml_graph_node(graph, j);
                if (!is_view(other) && storage(other) == storage(tensor)) {
                    return true;
                }
            }
            return false;
        };
        if (node->op == GGML_OP_MUL && segment.ids != nullptr) {
            for (const ggml_tensor *factor : {node->src[0], node->src[1]}) {
                if (looks_like_weights(factor, segment.ids) && !is_computed_here(factor)) {
                    segment.weights = factor;
                }
            }
        }
        BankRef *bank = bank_of(node);
        if (bank == nullptr) {
            continue;
        }
        const ggml_tensor *ids = node->src[2];
        const bool other_visit =
            segment.ids != nullptr && (bank->layer != banks_.front()->layer || ids->data != segment.ids->data);
        if (i > begin &&
            (is_computed_here(ids) || other_visit || std::find(banks_.begin(), banks_.end(), bank) != banks_.end())) {
            segment.end = i;
            break;
        }
        if (segment.ids == nullptr && !is_computed_here(node->src[1])) {
            segment.input = node->src[1];
        }
        segment.ids = ids;
        banks_.push_back(bank);
    }
    return segment;
}

ggml_status SplitExecutor::run_segment(ggml_cgraph *graph, const Segment &segment) {
    ExpertStore *store = banks_.empty() ? nullptr : banks_.front()->store;
    if (store != nullptr) {
        if (store->has_error() || !store->visit().enter(banks_, segment.ids, segment.weights, segment.input)) {
            return GGML_STATUS_FAILED;
        }
        if (!store->options().overlap) {
            store->await_demand();
        }
    }
    start_shadow(static_cast<size_t>(segment.end - segment.begin));
    for (int i = segment.begin; i < segment.end;) {
        ggml_tensor *node = ggml_graph_node(graph, i);
        if (const int next = i == segment.begin ? add_flow(graph, segment) : i; next > i) {
            i = next;
        } else if (bank_of(node) == nullptr) {
            ggml_graph_add_node(shadow_, node);
            ++i;
        } else {
            i = add_phase(graph, i, segment.end);
        }
    }
    const ggml_status status = ggml_backend_graph_compute(cpu_, shadow_);
    return status == GGML_STATUS_SUCCESS && store != nullptr && store->has_error() ? GGML_STATUS_FAILED : status;
}

void SplitExecutor::start_shadow(size_t n_nodes) {
    // A product becomes at most two nodes: conversion and multiplication.
    const size_t capacity = 3 * n_nodes;
    const size_t bytes = 2 * n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(capacity, false);
    if (graph_memory_.size() < bytes || context_ == nullptr) {
        ggml_free(context_);
        graph_memory_.resize(bytes);
        context_ = ggml_init({graph_memory_.size(), graph_memory_.data(), true});
    } else {
        ggml_reset(context_);
    }
    shadow_ = ggml_new_graph_custom(context_, capacity, false);
    n_phases_ = 0;
    n_conversions_ = 0;
}

// Adds all products of the segment and what lies between them as one flow, if that is possible; returns the first node after
// them, or else the segment's first.
int SplitExecutor::add_flow(ggml_cgraph *graph, const Segment &segment) {
    if (banks_.size() < 2) {
        return segment.begin;
    }
    first_.clear();
    between_.clear();
    ggml_tensor *last = nullptr;
    int end = segment.begin;
    for (int i = segment.begin; i < segment.end; ++i) {
        ggml_tensor *node = ggml_graph_node(graph, i);
        if (bank_of(node) == nullptr) {
            if (first_.empty() && !is_view(node)) {
                return segment.begin;  // it may compute the input
            }
            if (!first_.empty() && last == nullptr) {
                between_.push_back(node);
            }
            continue;
        }
        if (last != nullptr) {
            return segment.begin;
        }
        if (first_.empty() || node->src[1] == first_.front()->src[1]) {
            first_.push_back(node);
        } else {
            last = node;
            end = i + 1;
        }
    }
    const FlowNodes nodes{first_, between_, last};
    if (!ExpertFlow::possible(nodes) || is_used_after(graph, end, segment.end)) {
        return segment.begin;
    }
    flow_.prepare(nodes, *banks_.front()->store, n_threads_);
    add_custom([](ggml_tensor *, int thread, int, void *data) { static_cast<ExpertFlow *>(data)->run(thread); },
               &flow_);
    return end;
}

// True if a node from `begin` on reads what the flow keeps to itself.
bool SplitExecutor::is_used_after(ggml_cgraph *graph, int begin, int end) const {
    for (int i = begin; i < end; ++i) {
        for (const ggml_tensor *source : ggml_graph_node(graph, i)->src) {
            const auto same = [&](const ggml_tensor *inner) {
                return source != nullptr && storage(inner) == storage(source);
            };
            if (std::any_of(first_.begin(), first_.end(), same) ||
                std::any_of(between_.begin(), between_.end(), same)) {
                return true;
            }
        }
    }
    return false;
}

// Adds the product at node `begin` and those next to it with the same input; returns the first node after them. Only
// neighbours: the graph's allocator may give a later product memory that a node in between still reads.
int SplitExecutor::add_phase(ggml_cgraph *graph, int begin, int end) {
    if (n_phases_ == phases_.size()) {
        phases_.push_back(std::make_unique<Phase>());
    }
    Phase &phase = *phases_[n_phases_++];
    phase.products.clear();
    const ggml_tensor *input = ggml_graph_node(graph, begin)->src[1];
    int next = begin;
    for (int i = begin; i < end; ++i) {
        ggml_tensor *node = ggml_graph_node(graph, i);
        const BankRef *bank = bank_of(node);
        if (bank != nullptr && node->src[1] == input) {
            const auto type = ggml_get_type_traits_cpu(node->src[0]->type)->vec_dot_type;
            phase.products.push_back({node, bank, converted(input, type)});
            next = i + 1;
        } else if (!is_view(node)) {
            break;
        }
    }
    phase.store = phase.products.front().bank->store;
    phase.work.prepare(phase.products, phase.store->visit(), n_threads_);
    add_custom(
        [](ggml_tensor *, int thread, int, void *data) {
            auto &work = *static_cast<Phase *>(data);
            work.work.run(thread, *work.store);
        },
        &phase);
    return next;
}

// The conversion of `source`, added to the shadow graph once per segment.
const ConvertedRows *SplitExecutor::converted(const ggml_tensor *source, ggml_type type) {
    for (size_t i = 0; i < n_conversions_; ++i) {
        if (conversions_[i]->rows.source == source && conversions_[i]->rows.type == type) {
            return &conversions_[i]->rows;
        }
    }
    if (n_conversions_ == conversions_.size()) {
        conversions_.push_back(std::make_unique<Conversion>());
    }
    Conversion &conversion = *conversions_[n_conversions_++];
    ConvertedRows &rows = conversion.rows;
    rows.source = source;
    rows.type = type;
    if (type == source->type) {
        rows.data = static_cast<const std::byte *>(source->data);
        rows.stride1 = source->nb[1];
        rows.stride2 = source->nb[2];
        rows.converted = nullptr;
        return &rows;
    }
    rows.stride1 = ggml_row_size(type, source->ne[0]);
    rows.stride2 = rows.stride1 * source->ne[1];
    conversion.buffer.resize(std::max(conversion.buffer.size(), rows.stride2 * static_cast<size_t>(source->ne[2])));
    rows.converted = conversion.buffer.data();
    rows.data = rows.converted;
    add_custom(run_conversion, &rows);
    return &rows;
}

void SplitExecutor::add_custom(void (*run)(ggml_tensor *, int, int, void *), void *data) {
    ggml_tensor *node = ggml_custom_4d(context_, GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0, run, GGML_N_TASKS_MAX, data);
    node->flags |= GGML_TENSOR_FLAG_COMPUTE;
    ggml_graph_add_node(shadow_, node);
}

}  // namespace bmoe::backend
