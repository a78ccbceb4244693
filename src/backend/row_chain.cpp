#include "backend/row_chain.h"

#include <algorithm>

#include "backend/graph_tensors.h"
#include "ggml-backend.h"
#include "ggml-cpu/binary-ops.h"
#include "ggml-cpu/ggml-cpu-impl.h"
#include "ggml-cpu/ops.h"
#include "ggml-cpu/unary-ops.h"

namespace bmoe::backend {

namespace {

constexpr size_t kMostOperators = 16;
constexpr size_t kMostSources = 4;

size_t row_bytes(const ggml_tensor *tensor) { return ggml_row_size(tensor->type, tensor->ne[0]); }

// One row for each selected expert of one token.
bool has_expert_rows(const ggml_tensor *tensor, int64_t top_k) {
    return tensor->ne[1] == top_k && tensor->ne[2] == 1 && tensor->ne[3] == 1;
}

bool is_weight(const ggml_tensor *tensor) {
    return tensor->buffer != nullptr &&
           ggml_backend_buffer_get_usage(tensor->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

using Compute = void (*)(const ggml_compute_params *, ggml_tensor *);

// The function by which ggml computes an operator, for those that work row by row; nullptr for others. Called without a graph:
// for each graph that it computes ggml allocates a little, a thousand times a token.
Compute function_of(const ggml_tensor *op) {
    switch (op->op) {
        case GGML_OP_GLU:
            return ggml_compute_forward_glu;
        case GGML_OP_UNARY:
            return ggml_compute_forward_unary;
        case GGML_OP_ADD_ID:
            return ggml_compute_forward_add_id;
        case GGML_OP_MUL:
            return ggml_compute_forward_mul;
        case GGML_OP_CLAMP:
            return ggml_compute_forward_clamp;
        case GGML_OP_SCALE:
            return ggml_compute_forward_scale;
        case GGML_OP_SQR:
            return ggml_compute_forward_sqr;
        default:
            return nullptr;
    }
}

}  // namespace

void RowMemory::assign(std::span<ggml_tensor *const> products, std::span<ggml_tensor *const> operators, int64_t top_k) {
    regions_.clear();
    size_t size = 0;
    for (const auto &tensors : {products, operators}) {
        for (const ggml_tensor *tensor : tensors) {
            if (region(storage(tensor)) != nullptr) {
                continue;
            }
            const size_t bytes = whole_cache_lines(row_bytes(tensor));
            regions_.push_back({tensor, size, bytes});
            size += bytes * static_cast<size_t>(top_k);
        }
    }
    lines_.reserve(size);
}

const RowMemory::Region *RowMemory::region(const ggml_tensor *storage) const {
    const auto it =
        std::find_if(regions_.begin(), regions_.end(), [&](const Region &region) { return region.storage == storage; });
    return it == regions_.end() ? nullptr : &*it;
}

std::byte *RowMemory::row(const ggml_tensor *tensor, int64_t rank) const {
    const ggml_tensor *whole = storage(tensor);
    const Region *found = region(whole);
    if (found == nullptr) {
        return nullptr;
    }
    const auto within = static_cast<const char *>(tensor->data) - static_cast<const char *>(whole->data);
    return lines_.data() + found->offset + static_cast<size_t>(rank) * found->row_bytes + within;
}

RowChain::RowChain()
    : tensor_memory_(kMostOperators * (kMostSources + 1) * ggml_tensor_overhead()),
      context_(ggml_init({tensor_memory_.size(), tensor_memory_.data(), true})) {}

RowChain::~RowChain() { ggml_free(context_); }

bool RowChain::possible(std::span<ggml_tensor *const> products, std::span<ggml_tensor *const> operators,
                        const ggml_tensor *ids) {
    const int64_t top_k = ids->ne[0];
    if (operators.size() > kMostOperators) {
        return false;
    }
    const auto computed = [&](const ggml_tensor *tensor) {
        const auto same = [&](const ggml_tensor *other) {
            return !is_view(other) && storage(other) == storage(tensor);
        };
        return std::any_of(products.begin(), products.end(), same) ||
               std::any_of(operators.begin(), operators.end(), same);
    };
    for (const ggml_tensor *op : operators) {
        const ggml_tensor *whole = storage(op);
        if (!has_expert_rows(op, top_k) || op->nb[1] != whole->nb[1] || (op->flags & GGML_TENSOR_FLAG_OUTPUT) != 0 ||
            !computed(op)) {
            return false;
        }
        if (is_view(op)) {
            // Of a part of each row, or the whole.
            const auto within = static_cast<const char *>(op->data) - static_cast<const char *>(whole->data);
            if (within < 0 || static_cast<size_t>(within) + row_bytes(op) > whole->nb[1]) {
                return false;
            }
            continue;
        }
        if (function_of(op) == nullptr) {
            return false;
        }
        for (size_t s = 0; s < GGML_MAX_SRC; ++s) {
            const ggml_tensor *source = op->src[s];
            if (source == nullptr) {
                continue;
            }
            if (s >= kMostSources || !(source == ids || is_weight(storage(source)) ||
                                       (computed(source) && has_expert_rows(source, top_k)))) {
                return false;
            }
        }
    }
    return true;
}

void RowChain::assign(std::span<ggml_tensor *const> operators, const ggml_tensor *ids, const RowMemory &memory) {
    memory_ = &memory;
    ids_ = ids;
    rows_.clear();
    ggml_reset(context_);
    operators_.clear();
    for (const ggml_tensor *op : operators) {
        if (is_view(op)) {
            continue;
        }
        ggml_tensor *row = row_of(op);
        row->op = op->op;
        std::copy(std::begin(op->op_params), std::end(op->op_params), row->op_params);
        for (size_t s = 0; s < kMostSources && op->src[s] != nullptr; ++s) {
            row->src[s] = is_weight(storage(op->src[s])) ? op->src[s] : row_of(op->src[s]);
        }
        operators_.push_back(row);
    }
}

ggml_tensor *RowChain::row_of(const ggml_tensor *tensor) {
    for (const Row &row : rows_) {
        if (row.of == tensor) {
            return row.tensor;
        }
    }
    ggml_tensor *row = tensor == ids_ ? ggml_new_tensor_1d(context_, GGML_TYPE_I32, 1)
                                      : ggml_new_tensor_1d(context_, tensor->type, tensor->ne[0]);
    rows_.push_back({row, tensor});
    return row;
}

std::byte *RowChain::address(const ggml_tensor *tensor, int64_t rank) const {
    if (tensor == ids_) {
        return static_cast<std::byte *>(tensor->data) + rank * static_cast<int64_t>(tensor->nb[0]);
    }
    return memory_->row(tensor, rank);
}

void RowChain::run(int64_t rank) {
    for (const Row &row : rows_) {
        row.tensor->data = address(row.of, rank);
    }
    ggml_compute_params params = {};
    params.nth = 1;
    for (ggml_tensor *op : operators_) {
        function_of(op)(&params, op);
    }
}

}  // namespace bmoe::backend
