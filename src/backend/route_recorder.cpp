#include "backend/route_recorder.h"

#include <algorithm>
#include <numeric>

#include "backend/expert_store.h"
#include "backend/router_guess.h"
#include "ggml.h"

namespace bmoe::backend {

void RouteRecorder::on_routing(const ObservedRouting &routing, RouterGuess &routers) {
    scores_.clear();
    if (writer_.n_scores() > 0) {
        for (uint32_t token = 0; token < routing.n_tokens; ++token) {
            if (!add_scores(routing, token, routers)) {
                scores_.resize((size_t{token} + 1) * writer_.n_scores());
            }
        }
    }
    writer_.add({routing.layer, routing.n_tokens, routing.top_k, routing.experts, routing.used, routing.weights,
                 routing.resident, scores_});
}

// Applies the layer's router to the experts' input. Some models route by another input, in groups, or by other experts than
// the router's (a replay): where it would not select what was selected, these are not the scores.
bool RouteRecorder::add_scores(const ObservedRouting &routing, uint32_t token, RouterGuess &routers) {
    const ggml_tensor *input = routing.input;
    if (input == nullptr || input->ne[1] != 1 || !routers.knows(routing.layer)) {
        return false;
    }
    const auto *row =
        reinterpret_cast<const float *>(static_cast<const char *>(input->data) + size_t{token} * input->nb[2]);
    const size_t count = std::max(writer_.n_scores(), routing.top_k);
    if (!routers.top(routing.layer, {row, input->ne[0], routing.layer}, count, highest_)) {
        return false;
    }
    const auto selected = routing.experts.subspan(size_t{token} * routing.top_k, routing.top_k);
    const size_t n_selected = std::min(highest_.size(), selected.size());
    if (!std::is_permutation(selected.begin(), selected.end(), highest_.begin(),
                             highest_.begin() + static_cast<ptrdiff_t>(n_selected))) {
        return false;
    }
    for (size_t i = 0; i < writer_.n_scores(); ++i) {
        const bool is_there = i < highest_.size();  // a layer may have fewer experts
        scores_.push_back(is_there ? cache::RouterScore{highest_[i], routers.score(highest_[i])}
                                   : cache::RouterScore{});
    }
    return true;
}

cache::RouteTraceHeader route_trace_header(ExpertStore &store) {
    const cache::Geometry &geometry = store.geometry();
    cache::RouteTraceHeader header;
    header.model = store.model().shards().front()->path();
    header.architecture = store.model().architecture();
    for (size_t layer = 0; layer < geometry.layers.size(); ++layer) {
        const cache::LayerGeometry &of = geometry.layers[layer];
        header.n_expert = std::max(header.n_expert, of.n_expert);
        header.top_k = std::max(header.top_k, of.top_k);
        header.layers.push_back({std::accumulate(of.slice_bytes.begin(), of.slice_bytes.end(), uint64_t{0}),
                                 store.model().expert_layers()[layer].block,
                                 store.lookahead().routers().knows(static_cast<uint16_t>(layer))});
    }
    return header;
}

}  // namespace bmoe::backend
