#include "backend/expert_matmul.h"

#include <algorithm>
#include <cstring>

#include "backend/expert_store.h"
#include "backend/kernels/row_kernel.h"
#include "backend/layer_visit.h"
#include "backend/single_thread_graph.h"
#include "base/clock.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

// Threads take weight rows in multiples of this, which ggml's panels and the row kernels go through without remainders.
constexpr int64_t kBlock = 16;

// From this many rows per expert on, ggml may take another path than vec_dot.
constexpr int64_t kManyRows = 8;

// Types for which ggml multiplies many rows at once in another order of additions than vec_dot.
bool has_panel_path(ggml_type type) {
    switch (type) {
        case GGML_TYPE_IQ2_XXS:
        case GGML_TYPE_IQ2_XS:
        case GGML_TYPE_IQ2_S:
        case GGML_TYPE_IQ3_XXS:
        case GGML_TYPE_IQ3_S:
        case GGML_TYPE_IQ1_S:
        case GGML_TYPE_IQ1_M:
        case GGML_TYPE_IQ4_XS:
        case GGML_TYPE_IQ4_NL:
            return true;
        default:
            return false;
    }
}

}  // namespace

bool can_multiply(ggml_type weights) {
    const auto *traits = ggml_get_type_traits_cpu(weights);
    return traits->vec_dot != nullptr && (traits->vec_dot_type == GGML_TYPE_F32 ||
                                          ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float != nullptr);
}

void convert_rows(const ConvertedRows &rows, int thread, int n_threads) {
    if (rows.converted == nullptr) {
        return;
    }
    const ggml_tensor &source = *rows.source;
    const auto from_float = ggml_get_type_traits_cpu(rows.type)->from_float;
    const auto block = static_cast<int64_t>(ggml_blck_size(rows.type));
    const size_t block_bytes = ggml_type_size(rows.type);
    // Blocks are converted independently, so any division among the threads gives the same bits.
    const int64_t blocks = source.ne[0] / block;
    const int64_t begin = blocks * thread / n_threads;
    const int64_t end = blocks * (thread + 1) / n_threads;
    if (begin == end) {
        return;
    }
    for (int64_t i2 = 0; i2 < source.ne[2]; ++i2) {
        for (int64_t i1 = 0; i1 < source.ne[1]; ++i1) {
            const char *from = static_cast<const char *>(source.data) + i1 * source.nb[1] + i2 * source.nb[2];
            std::byte *to = rows.converted + i1 * rows.stride1 + i2 * rows.stride2;
            from_float(reinterpret_cast<const float *>(from) + begin * block, to + begin * block_bytes,
                       (end - begin) * block);
        }
    }
}

// All rows of one expert's product; threads take ranges of weight rows.
struct ProductPhase::Item {
    const ExpertProduct *product = nullptr;
    uint32_t index = 0;  // of the expert in the visit
    int64_t chunk = 0;
    std::atomic<int64_t> next{0};        // first weight row that nobody has taken
    std::atomic<int64_t> unfinished{0};  // weight rows not yet multiplied
};

struct ProductPhase::Scratch {
    SingleThreadGraph graph;
    std::vector<float> gathered;
    std::vector<float> product;
    std::vector<const std::byte *> inputs;
    std::vector<float *> outputs;
};

ProductPhase::ProductPhase() = default;
ProductPhase::~ProductPhase() = default;

void ProductPhase::prepare(std::span<const ExpertProduct> products, LayerVisit &visit, int n_threads) {
    visit_ = &visit;
    products_.assign(products.begin(), products.end());
    n_items_ = products_.size() * visit.experts();
    if (n_items_ > items_capacity_) {
        items_ = std::make_unique<Item[]>(n_items_);
        items_capacity_ = n_items_;
    }
    while (scratch_.size() < static_cast<size_t>(n_threads)) {
        scratch_.push_back(std::make_unique<Scratch>());
    }
    size_t at = 0;
    for (uint32_t index = 0; index < visit.experts(); ++index) {
        for (const ExpertProduct &product : products_) {
            Item &item = items_[at++];
            const int64_t rows = product.node->src[0]->ne[1];
            item.product = &product;
            item.index = index;
            // Several ranges per thread even out late slices and unequal cores.
            item.chunk = std::max<int64_t>(kBlock, (rows / (n_threads * 4) + kBlock - 1) / kBlock * kBlock);
            if (has_panel_path(product.node->src[0]->type) && rows % kBlock != 0) {
                item.chunk = rows;  // ggml chooses its path by the number of weight rows: it must see all of them
            }
            item.next.store(0, std::memory_order_relaxed);
            item.unfinished.store(rows, std::memory_order_relaxed);
        }
    }
    open_items_.store(n_items_, std::memory_order_relaxed);
}

bool ProductPhase::take(Item &item, int64_t &begin, int64_t &end) {
    const int64_t rows = item.product->node->src[0]->ne[1];
    if (item.next.load(std::memory_order_relaxed) >= rows) {
        return false;
    }
    begin = item.next.fetch_add(item.chunk, std::memory_order_relaxed);
    if (begin >= rows) {
        return false;
    }
    end = std::min(begin + item.chunk, rows);
    if (end == rows && open_items_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        // Others may sleep although nothing is left to wait for.
        visit_->wake();
    }
    return true;
}

void ProductPhase::run(int thread, ExpertStore &store) {
    Scratch &scratch = *scratch_[thread];
    size_t first = 0;  // items before it are taken whole
    while (open_items_.load(std::memory_order_acquire) > 0) {
        const uint32_t seen = visit_->arrivals().load(std::memory_order_acquire);
        bool worked = false;
        while (first < n_items_ &&
               items_[first].next.load(std::memory_order_relaxed) >= items_[first].product->node->src[0]->ne[1]) {
            ++first;
        }
        for (size_t i = first; i < n_items_; ++i) {
            Item &item = items_[i];
            const auto state =
                visit_->slice(item.index, item.product->bank->slice).state.load(std::memory_order_acquire);
            if (state != cache::SliceState::kReady && state != cache::SliceState::kFailed) {
                continue;
            }
            int64_t begin = 0;
            int64_t end = 0;
            while (take(item, begin, end)) {
                if (state == cache::SliceState::kReady) {
                    multiply(item, begin, end, scratch);
                }
                finish(item, end - begin);
                worked = true;
            }
        }
        if (worked || open_items_.load(std::memory_order_acquire) == 0) {
            continue;
        }
        if (thread == 0) {
            const uint64_t start = now_ns();
            visit_->arrivals().wait(seen, std::memory_order_acquire);
            store.add_stall(now_ns() - start);
        } else {
            visit_->arrivals().wait(seen, std::memory_order_acquire);
        }
    }
}

void ProductPhase::finish(Item &item, int64_t rows) {
    if (item.unfinished.fetch_sub(rows, std::memory_order_acq_rel) == rows) {
        visit_->release(item.index, item.product->bank->slice);
    }
}

void ProductPhase::multiply(const Item &item, int64_t begin, int64_t end, Scratch &scratch) const {
    const ExpertProduct &product = *item.product;
    ggml_tensor &node = *product.node;
    const ggml_tensor &weights = *node.src[0];
    const std::span<const RoutedRow> rows = visit_->rows(item.index);
    if (static_cast<int64_t>(rows.size()) >= kManyRows && has_panel_path(weights.type)) {
        multiply_with_ggml(item, begin, end, scratch);
        return;
    }
    const ConvertedRows &activations = *product.activations;
    const int64_t ne11 = activations.source->ne[1];
    scratch.inputs.clear();
    scratch.outputs.clear();
    for (const RoutedRow row : rows) {
        scratch.inputs.push_back(activations.data + (row.rank % ne11) * activations.stride1 +
                                 row.token * activations.stride2);
        auto *out = static_cast<char *>(node.data) + row.rank * node.nb[1] + row.token * node.nb[2];
        scratch.outputs.push_back(reinterpret_cast<float *>(out) + begin);
    }
    row_kernel(weights.type)
        .multiply({.n = weights.ne[0],
                   .weights = visit_->slice(item.index, product.bank->slice).data + begin * weights.nb[1],
                   .weight_stride = weights.nb[1],
                   .n_rows = end - begin,
                   .x = scratch.inputs.data(),
                   .n_x = static_cast<int64_t>(rows.size()),
                   .out = scratch.outputs.data()});
}

void ProductPhase::multiply_with_ggml(const Item &item, int64_t begin, int64_t end, Scratch &scratch) const {
    const ExpertProduct &product = *item.product;
    ggml_tensor &node = *product.node;
    const ggml_tensor &weights = *node.src[0];
    const ggml_tensor &source = *product.activations->source;
    const std::span<const RoutedRow> rows = visit_->rows(item.index);
    const int64_t n = weights.ne[0];
    const int64_t n_out = end - begin;
    scratch.gathered.resize(rows.size() * n);
    scratch.product.resize(rows.size() * n_out);
    for (size_t r = 0; r < rows.size(); ++r) {
        const char *from = static_cast<const char *>(source.data) + (rows[r].rank % source.ne[1]) * source.nb[1] +
                           rows[r].token * source.nb[2];
        std::memcpy(&scratch.gathered[r * n], from, n * sizeof(float));
    }
    const auto *data = visit_->slice(item.index, product.bank->slice).data + begin * weights.nb[1];
    scratch.graph.mul_mat_id_one(weights.type, n, n_out, data, scratch.gathered.data(),
                                 static_cast<int64_t>(rows.size()), scratch.product.data());
    for (size_t r = 0; r < rows.size(); ++r) {
        auto *out = reinterpret_cast<float *>(static_cast<char *>(node.data) + rows[r].rank * node.nb[1] +
                                              rows[r].token * node.nb[2]);
        std::memcpy(out + begin, &scratch.product[r * n_out], n_out * sizeof(float));
    }
}

}  // namespace bmoe::backend
