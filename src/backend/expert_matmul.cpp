#include "backend/expert_matmul.h"

#include <algorithm>
#include <cstring>

#include "backend/expert_store.h"
#include "backend/kernels/row_kernel.h"
#include "backend/layer_visit.h"
#include "backend/row_work.h"
#include "backend/single_thread_graph.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

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

// One expert's product.
struct ProductPhase::Item {
    const ExpertProduct *product = nullptr;
    uint32_t index = 0;  // of the expert in the visit
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
    items_.clear();
    ranges_.reset(products_.size() * visit.experts());
    while (scratch_.size() < static_cast<size_t>(n_threads)) {
        scratch_.push_back(std::make_unique<Scratch>());
    }
    for (uint32_t index = 0; index < visit.experts(); ++index) {
        for (const ExpertProduct &product : products_) {
            const int64_t rows = product.node->src[0]->ne[1];
            // ggml chooses its path by the number of weight rows: where they do not divide, it must see all of them.
            const bool whole = has_panel_path(product.node->src[0]->type) && rows % RowRanges::kBlock != 0;
            ranges_.set(items_.size(), rows, whole ? rows : RowRanges::even_share(rows, n_threads));
            items_.push_back({&product, index});
        }
    }
}

void ProductPhase::run(int thread, ExpertStore &store) {
    if (thread == 0) {
        for (const ExpertProduct &product : products_) {
            clear_dropped_rows(*product.node, *visit_);
        }
    }
    work_as_slices_arrive(
        ranges_, store, thread, [&](size_t item) { return has_arrived(slice(items_[item])); },
        [&](size_t item, const RowRange &range) {
            const Item &it = items_[item];
            if (slice(it).state.load(std::memory_order_acquire) == cache::SliceState::kReady) {
                multiply(it, range, *scratch_[thread]);
            }
            if (ranges_.finish(item, range)) {
                visit_->release(it.index, it.product->bank->slice);
            }
        });
}

const cache::Slice &ProductPhase::slice(const Item &item) const {
    return visit_->slice(item.index, item.product->bank->slice);
}

void ProductPhase::multiply(const Item &item, const RowRange &range, Scratch &scratch) const {
    const ExpertProduct &product = *item.product;
    ggml_tensor &node = *product.node;
    const ggml_tensor &weights = *node.src[0];
    const std::span<const RoutedRow> rows = visit_->rows(item.index);
    if (static_cast<int64_t>(rows.size()) >= kManyRows && has_panel_path(weights.type)) {
        multiply_with_ggml(item, range, scratch);
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
        scratch.outputs.push_back(reinterpret_cast<float *>(out) + range.begin);
    }
    row_kernel(weights.type)
        .multiply({.n = weights.ne[0],
                   .weights = slice(item).data + range.begin * weights.nb[1],
                   .weight_stride = weights.nb[1],
                   .n_rows = range.rows(),
                   .x = scratch.inputs.data(),
                   .n_x = static_cast<int64_t>(rows.size()),
                   .out = scratch.outputs.data()});
}

void ProductPhase::multiply_with_ggml(const Item &item, const RowRange &range, Scratch &scratch) const {
    const ExpertProduct &product = *item.product;
    ggml_tensor &node = *product.node;
    const ggml_tensor &weights = *node.src[0];
    const ggml_tensor &source = *product.activations->source;
    const std::span<const RoutedRow> rows = visit_->rows(item.index);
    const int64_t n = weights.ne[0];
    const int64_t n_out = range.rows();
    scratch.gathered.resize(rows.size() * n);
    scratch.product.resize(rows.size() * n_out);
    for (size_t r = 0; r < rows.size(); ++r) {
        const char *from = static_cast<const char *>(source.data) + (rows[r].rank % source.ne[1]) * source.nb[1] +
                           rows[r].token * source.nb[2];
        std::memcpy(&scratch.gathered[r * n], from, n * sizeof(float));
    }
    const auto *data = slice(item).data + range.begin * weights.nb[1];
    scratch.graph.mul_mat_id_one(weights.type, n, n_out, data, scratch.gathered.data(),
                                 static_cast<int64_t>(rows.size()), scratch.product.data());
    for (size_t r = 0; r < rows.size(); ++r) {
        auto *out = reinterpret_cast<float *>(static_cast<char *>(node.data) + rows[r].rank * node.nb[1] +
                                              rows[r].token * node.nb[2]);
        std::memcpy(out + range.begin, &scratch.product[r * n_out], n_out * sizeof(float));
    }
}

}  // namespace bmoe::backend
