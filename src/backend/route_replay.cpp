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
    : n_layer_(geometry.layers.size()), top_k_(trace.top_k), visited_(n_layer_, false) {
    check_shape(trace, geometry, path);
    prompt_ = collect(trace, cache::Phase::kPrefill, path);
    decode_ = collect(trace, cache::Phase::kDecode, path);
    size_t fewest = decode_.tokens;
    for (const std::vector<int32_t> &experts : decode_.experts) {
        fewest = std::min(fewest, experts.size() / top_k_);
    }
    if (fewest == 0 || fewest != decode_.tokens) {
        throw Error(cat("route trace ", path, ": its layers have from ", fewest, " to ", decode_.tokens,
                        " rows of phase 1 (decode); a replay needs one for every token and layer"));
    }
}

// The n-th row that a layer has of the phase is its n-th token's.
RouteReplay::Routing RouteReplay::collect(const cache::RouteTrace &trace, cache::Phase phase,
                                          const std::string &path) const {
    Routing routing;
    routing.experts.resize(n_layer_);
    for (const cache::RouteRow &row : trace.rows) {
        if (row.phase != phase) {
            continue;
        }
        std::vector<int32_t> &experts = routing.experts[row.layer];
        if (row.experts.size() != top_k_) {
            throw Error(cat("route trace ", path, ": ", phase == cache::Phase::kDecode ? "decoded" : "prompt",
                            " token ", experts.size() / top_k_, " has ", row.experts.size(), " experts in layer ",
                            row.layer, ", not ", top_k_, "; record it again"));
        }
        experts.insert(experts.end(), row.experts.begin(), row.experts.end());
        routing.tokens = std::max(routing.tokens, static_cast<uint32_t>(experts.size() / top_k_));
    }
    return routing;
}

// Where the layer has no row for the token, another of its rows; nullptr if it has none.
const int32_t *RouteReplay::row(const Routing &routing, uint16_t layer, uint64_t token) const {
    const std::vector<int32_t> &experts = routing.experts[layer];
    const uint64_t rows = experts.size() / top_k_;
    if (rows == 0) {
        return nullptr;
    }
    const uint64_t from_last = routing.tokens - 1 - token % routing.tokens;
    return experts.data() + (rows - 1 - from_last % rows) * top_k_;
}

void RouteReplay::apply(uint16_t layer, const ggml_tensor &ids) {
    const bool first = std::none_of(visited_.begin(), visited_.end(), [](bool visited) { return visited; });
    if (first || visited_[layer]) {
        std::fill(visited_.begin(), visited_.end(), false);
        pass_tokens_ = ids.ne[1];
        decodes_ = pass_tokens_ == 1 && !in_prompt_;
        uint64_t &done = decodes_ ? decoded_ : prompted_;
        first_ = done;
        done += static_cast<uint64_t>(pass_tokens_);
    }
    visited_[layer] = true;
    // Layers that are computed for some tokens only are so for the last.
    const uint64_t skipped = static_cast<uint64_t>(std::max<int64_t>(0, pass_tokens_ - ids.ne[1]));
    for (int64_t token = 0; token < ids.ne[1]; ++token) {
        const int32_t *experts =
            row(decodes_ ? decode_ : prompt_, layer, first_ + skipped + static_cast<uint64_t>(token));
        if (experts == nullptr) {
            return;
        }
        auto *to = static_cast<char *>(ids.data) + token * ids.nb[1];
        for (uint32_t rank = 0; rank < top_k_; ++rank) {
            *reinterpret_cast<int32_t *>(to + rank * ids.nb[0]) = experts[rank];
        }
    }
}

}  // namespace bmoe::backend
