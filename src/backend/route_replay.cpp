#include "backend/route_replay.h"

#include <algorithm>

#include "base/error.h"
#include "ggml.h"

namespace bmoe::backend {

namespace {

void check_shape(const cache::RouteTrace &trace, const cache::Geometry &geometry, const std::string &path) {
    const auto refuse = [&](const char *what, uint64_t of_trace, uint64_t of_model) {
        throw Error(cat("route trace ", path, " has ", of_trace, ' ', what, ", the model has ", of_model,
                        ": replay it on a model of the recorded shape"));
    };
    if (trace.expert_bytes.size() != geometry.layers.size()) {
        refuse("expert layers", trace.expert_bytes.size(), geometry.layers.size());
    }
    for (const cache::LayerGeometry &layer : geometry.layers) {
        if (trace.n_expert != layer.n_expert) {
            refuse("experts per layer", trace.n_expert, layer.n_expert);
        }
        if (trace.top_k != layer.top_k) {
            refuse("experts per token", trace.top_k, layer.top_k);
        }
    }
}

}  // namespace

RouteReplay::RouteReplay(const cache::RouteTrace &trace, const cache::Geometry &geometry, const std::string &path)
    : n_layer_(static_cast<uint32_t>(geometry.layers.size())), top_k_(trace.top_k), visited_(n_layer_, false) {
    check_shape(trace, geometry, path);
    // The n-th decode row of a layer is the n-th token's.
    std::vector<uint32_t> rows(n_layer_, 0);
    for (const cache::RouteRow &row : trace.rows) {
        rows[row.layer] += row.phase == cache::Phase::kDecode ? 1 : 0;
    }
    tokens_ = *std::min_element(rows.begin(), rows.end());
    const uint32_t most = *std::max_element(rows.begin(), rows.end());
    if (tokens_ == 0 || tokens_ != most) {
        throw Error(cat("route trace ", path, ": its layers have from ", tokens_, " to ", most,
                        " rows of phase 1 (decode); a replay needs one for every token and layer"));
    }
    experts_.resize(static_cast<size_t>(tokens_) * n_layer_ * top_k_);
    std::fill(rows.begin(), rows.end(), 0);
    for (const cache::RouteRow &row : trace.rows) {
        if (row.phase != cache::Phase::kDecode) {
            continue;
        }
        const uint32_t token = rows[row.layer]++;
        if (row.experts.size() != top_k_) {
            throw Error(cat("route trace ", path, ": decoded token ", token, " has ", row.experts.size(),
                            " experts in layer ", row.layer, ", not ", top_k_, "; record it again"));
        }
        std::copy(row.experts.begin(), row.experts.end(),
                  experts_.begin() + (static_cast<size_t>(token) * n_layer_ + row.layer) * top_k_);
    }
}

void RouteReplay::apply(uint16_t layer, const ggml_tensor &ids) {
    const bool first = std::none_of(visited_.begin(), visited_.end(), [](bool visited) { return visited; });
    if (first || visited_[layer]) {
        std::fill(visited_.begin(), visited_.end(), false);
        single_token_ = ids.ne[1] == 1 && !in_prompt_;
        passes_ += single_token_ ? 1 : 0;
    }
    visited_[layer] = true;
    if (!single_token_) {
        return;
    }
    const uint64_t token = (passes_ - 1) % tokens_;
    const int32_t *experts = experts_.data() + (token * n_layer_ + layer) * top_k_;
    auto *row = static_cast<char *>(ids.data);
    for (uint32_t rank = 0; rank < top_k_; ++rank) {
        *reinterpret_cast<int32_t *>(row + rank * ids.nb[0]) = experts[rank];
    }
}

}  // namespace bmoe::backend
