#include "backend/expert_flow.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "backend/expert_store.h"
#include "backend/graph_tensors.h"
#include "backend/kernels/row_kernel.h"
#include "backend/layer_visit.h"
#include "backend/row_work.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

ggml_type input_type(const ggml_tensor *product) {
    return ggml_get_type_traits_cpu(product->src[0]->type)->vec_dot_type;
}

// A row of F32 in the type that vec_dot wants.
void convert_row(ggml_type type, const void *from, std::byte *to, int64_t n) {
    if (type == GGML_TYPE_F32) {
        std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
    } else {
        ggml_get_type_traits_cpu(type)->from_float(static_cast<const float *>(from), to, n);
    }
}

}  // namespace

void ExpertFlow::Rows::resize(ggml_type type, int64_t n, int64_t rows) {
    stride_ = whole_cache_lines(ggml_row_size(type, n));
    lines_.reserve(stride_ * static_cast<size_t>(rows));
}

// An expert's product.
struct ExpertFlow::Item {
    const ggml_tensor *product = nullptr;
    uint32_t index = 0;  // of the expert in the visit
    uint16_t bank = 0;
    bool last = false;  // the product by the down experts
};

struct ExpertFlow::Expert {
    std::atomic<int64_t> first_rows{0};  // of its first products, not yet multiplied
    std::atomic<bool> hidden{false};     // what its down product multiplies is there
};

ExpertFlow::ExpertFlow() : memory_(std::make_unique<RowMemory>()) {}
ExpertFlow::~ExpertFlow() = default;

bool ExpertFlow::possible(const FlowNodes &nodes) {
    if (nodes.first.empty() || nodes.last == nullptr) {
        return false;
    }
    const ggml_tensor *ids = nodes.last->src[2];
    const int64_t top_k = ids->ne[0];
    if (ids->ne[1] != 1) {
        return false;
    }
    const ggml_type type = input_type(nodes.first.front());
    for (const ggml_tensor *product : nodes.first) {
        if (input_type(product) != type || product->src[2]->data != ids->data || product->ne[2] != 1 ||
            (product->flags & GGML_TENSOR_FLAG_OUTPUT) != 0) {
            return false;
        }
    }
    const ggml_tensor *hidden = nodes.last->src[1];
    const auto same = [&](const ggml_tensor *node) { return storage(node) == storage(hidden); };
    const bool from_flow = std::any_of(nodes.first.begin(), nodes.first.end(), same) ||
                           std::any_of(nodes.between.begin(), nodes.between.end(), same);
    return from_flow && hidden->ne[1] == top_k && RowChain::possible(nodes.first, nodes.between, ids);
}

void ExpertFlow::prepare(const FlowNodes &nodes, ExpertStore &store, int n_threads) {
    store_ = &store;
    LayerVisit &visit = store.visit();
    visit_ = &visit;
    n_threads_ = n_threads;
    first_.assign(nodes.first.begin(), nodes.first.end());
    between_.assign(nodes.between.begin(), nodes.between.end());
    nodes_ = {first_, between_, nodes.last};
    const ggml_tensor *ids = nodes.last->src[2];
    const int64_t top_k = ids->ne[0];

    const ggml_tensor *input = first_.front()->src[1];
    const ggml_type type = input_type(first_.front());
    input_.resize(type, input->ne[0], input->ne[1]);
    for (int64_t row = 0; row < input->ne[1]; ++row) {
        convert_row(type, static_cast<const char *>(input->data) + row * static_cast<int64_t>(input->nb[1]),
                    input_[row], input->ne[0]);
    }
    look_input_ = nullptr;
    if (store.lookahead().active() && input->ne[1] == 1) {
        look_memory_.resize(std::max(look_memory_.size(), static_cast<size_t>(input->ne[0])));
        std::memcpy(look_memory_.data(), input->data, static_cast<size_t>(input->ne[0]) * sizeof(float));
        look_input_ = look_memory_.data();
    }
    clear_dropped_rows(*nodes.last, visit);  // after the input was copied: the graph may give the two the same memory
    hidden_.resize(input_type(nodes.last), nodes.last->src[1]->ne[0], top_k);
    memory_->assign(first_, between_, top_k);
    while (chains_.size() < static_cast<size_t>(n_threads)) {
        chains_.push_back(std::make_unique<RowChain>());
    }
    for (int thread = 0; thread < n_threads; ++thread) {
        chains_[thread]->assign(between_, ids, *memory_);
    }

    const uint32_t n_experts = visit.experts();
    items_.resize(n_experts * (first_.size() + 1));
    ranges_.reset(items_.size());
    if (n_experts > experts_capacity_) {
        experts_ = std::make_unique<Expert[]>(n_experts);
        experts_capacity_ = n_experts;
    }
    size_t at = 0;
    for (uint32_t index = 0; index < n_experts; ++index) {
        int64_t first_rows = 0;
        for (size_t p = 0; p <= first_.size(); ++p) {
            Item &item = items_[at];
            item.product = p < first_.size() ? first_[p] : nodes.last;
            item.last = p == first_.size();
            item.index = index;
            item.bank = static_cast<const BankRef *>(item.product->src[0]->extra)->slice;
            const int64_t rows = item.product->src[0]->ne[1];
            ranges_.set(at++, rows, n_threads == 1 ? rows : RowRanges::even_share(rows, n_threads));
            first_rows += item.last ? 0 : rows;
        }
        experts_[index].first_rows.store(first_rows, std::memory_order_relaxed);
        experts_[index].hidden.store(false, std::memory_order_relaxed);
    }
}

bool ExpertFlow::ready(const Item &item) const {
    if (item.last && !experts_[item.index].hidden.load(std::memory_order_acquire)) {
        return false;
    }
    return has_arrived(visit_->slice(item.index, item.bank));
}

void ExpertFlow::run(int thread) {
    if (look_input_ != nullptr && thread == n_threads_ - 1) {
        store_->lookahead().look(visit_->layer(), look_input_, first_.front()->src[1]->ne[0]);
    }
    work_as_slices_arrive(
        ranges_, *store_, thread, [&](size_t item) { return ready(items_[item]); },
        [&](size_t item, const RowRange &range) {
            multiply(items_[item], range);
            finish(item, range, thread);
        });
}

void ExpertFlow::multiply(const Item &item, const RowRange &range) const {
    const cache::Slice &slice = visit_->slice(item.index, item.bank);
    if (slice.state.load(std::memory_order_acquire) != cache::SliceState::kReady) {
        return;
    }
    const ggml_tensor &product = *item.product;
    const ggml_tensor &weights = *product.src[0];
    const RowKernel &kernel = row_kernel(weights.type);
    for (const RoutedRow &row : visit_->rows(item.index)) {
        const std::byte *x = item.last ? hidden_[row.rank] : input_[row.rank % product.src[1]->ne[1]];
        auto *out =
            range.begin + reinterpret_cast<float *>(item.last ? static_cast<std::byte *>(product.data) +
                                                                    row.rank * static_cast<int64_t>(product.nb[1])
                                                              : memory_->row(&product, row.rank));
        kernel.multiply({.n = weights.ne[0],
                         .weights = slice.data + range.begin * static_cast<int64_t>(weights.nb[1]),
                         .weight_stride = weights.nb[1],
                         .n_rows = range.rows(),
                         .x = &x,
                         .n_x = 1,
                         .out = &out});
    }
}

void ExpertFlow::finish(size_t item, const RowRange &range, int thread) {
    const Item &it = items_[item];
    if (ranges_.finish(item, range)) {
        visit_->release(it.index, it.bank);
    }
    const int64_t rows = range.rows();
    if (!it.last && experts_[it.index].first_rows.fetch_sub(rows, std::memory_order_acq_rel) == rows) {
        complete_hidden(it.index, thread);
    }
}

void ExpertFlow::complete_hidden(uint32_t index, int thread) {
    const ggml_tensor *hidden = nodes_.last->src[1];
    for (const RoutedRow &row : visit_->rows(index)) {
        chains_[thread]->run(row.rank);
        convert_row(input_type(nodes_.last), memory_->row(hidden, row.rank), hidden_[row.rank], hidden->ne[0]);
    }
    experts_[index].hidden.store(true, std::memory_order_release);
    visit_->wake();
}

}  // namespace bmoe::backend
