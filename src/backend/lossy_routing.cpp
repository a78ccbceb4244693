#include "backend/lossy_routing.h"

#include <algorithm>
#include <cmath>

#include "backend/graph_tensors.h"
#include "backend/router_guess.h"
#include "base/error.h"
#include "ggml.h"

namespace bmoe::backend {

namespace {

// After so many searches for a substitute without a router's scores it is not by chance.
constexpr uint64_t kTrials = 64;

}  // namespace

std::string LossyOptions::describe() const {
    std::string what;
    const auto add = [&](bool on, const std::string &part) { what += on ? (what.empty() ? "" : ", ") + part : ""; };
    add(quality_budget > 0, cat("up to ", quality_budget, " % of the router's weight is forgone"));
    add(substitute_cold > 0 && substitute_cold <= 1,
        cat("experts not in memory are replaced from ", substitute_cold, " of their score"));
    add(drop_cold > 0,
        cat("those below ", drop_cold, " of the mean weight are dropped", drop_in_prefill ? ", in prompts too" : ""));
    add(!what.empty() && drop_renorm, "the other weights are scaled up");
    return what;
}

void LossyOptions::check() const {
    if (!(drop_cold >= 0 && drop_cold <= 1)) {
        throw Error(cat("--drop-cold-experts ", drop_cold, ": give a number from 0 (drops nothing) to 1"));
    }
    if (!(substitute_cold >= 0 && std::isfinite(substitute_cold))) {
        throw Error(
            cat("--substitute-cold ", substitute_cold,
                ": give how many times the score of an expert its substitute must have at least, or 0 (never)"));
    }
    if (!(quality_budget <= 100)) {
        throw Error(cat("--quality-budget ", quality_budget, ": give a percentage from 0 to 100"));
    }
    if (quality_budget >= 0 && (drop_cold > 0 || substitute_cold > 0 || drop_in_prefill)) {
        throw Error(
            "--quality-budget chooses what is dropped and replaced, in decoded tokens only: give it without "
            "--drop-cold-experts, --substitute-cold and --drop-in-prefill");
    }
}

LossyCounters LossyCounters::since(const LossyCounters &earlier) const {
    return {routed - earlier.routed,
            dropped - earlier.dropped,
            substituted - earlier.substituted,
            mass_routed - earlier.mass_routed,
            mass_dropped - earlier.mass_dropped,
            mass_substituted - earlier.mass_substituted,
            visits - earlier.visits,
            unweighted - earlier.unweighted,
            searched - earlier.searched,
            unscored - earlier.unscored};
}

double LossyCounters::share(double mass) const {
    return mass_routed > 0 ? mass / static_cast<double>(mass_routed) : -1;
}

LossyRouting::LossyRouting(const LossyOptions &options, const cache::Geometry &geometry, RouterGuess &routers)
    : options_(options),
      geometry_(geometry),
      routers_(routers),
      limits_{.drop = options.drop_cold, .substitute = options.substitute_cold} {
    options.check();
    if (options.quality_budget >= 0) {
        constexpr double kPercent = 0.01;
        budget_.emplace(options.quality_budget * kPercent);
    }
}

void LossyRouting::note_once(bool &noted, const std::string &line) const {
    if (!noted && options_.on_note) {
        options_.on_note(line);
    }
    noted = true;
}

// True if the layer's routing may be changed. llama.cpp computes the last layer of a prompt for one token only: that is a
// prompt's all the same.
bool LossyRouting::begin_layer(uint16_t layer, size_t n_tokens) {
    if (!last_layer_ || layer <= *last_layer_) {
        single_token_ = n_tokens == 1 && !in_prompt_;
        if (single_token_ && budget_) {
            limits_ = budget_->next_token();
        }
    }
    last_layer_ = layer;
    if (single_token_ && budget_) {
        budget_->count_layer();
    }
    return single_token_ || options_.drop_in_prefill;
}

// Fills residency_. False if nothing is cold: then the rest of it may be missing.
bool LossyRouting::find_residency(uint16_t layer, std::span<const int32_t> experts, const ResidencyOf &residency) {
    if (std::none_of(experts.begin(), experts.end(),
                     [&](int32_t expert) { return residency(expert) == cache::Residency::kCold; })) {
        return false;
    }
    const auto n_expert = static_cast<int32_t>(geometry_.layers[layer].n_expert);
    residency_.clear();
    for (int32_t expert = 0; expert < n_expert; ++expert) {
        residency_.push_back(residency(expert));
    }
    return true;
}

// The router's scores by expert; empty if they cannot be had.
std::span<const float> LossyRouting::scores(uint16_t layer, const Tensors &tensors, RouterGate gate) {
    ++counters_.searched;
    const ggml_tensor *input = tensors.input;
    if (gate != RouterGate::kOther && input != nullptr && ggml_nrows(input) == 1 && routers_.knows(layer) &&
        routers_.probabilities(layer, {static_cast<const float *>(input->data), input->ne[0], layer}, gate,
                               experts_.size(), scores_, selected_) &&
        scores_.size() == residency_.size() &&
        std::is_permutation(selected_.begin(), selected_.end(), experts_.begin(), experts_.end())) {
        return scores_;
    }
    ++counters_.unscored;
    if (counters_.unscored == counters_.searched && counters_.searched >= kTrials) {
        note_once(noted_unscored_,
                  "lossy routing: no expert is replaced: the router's scores, computed from the experts' input, do not "
                  "give the model's own selection");
    }
    return {};
}

cache::Forgone LossyRouting::choose(uint16_t layer, const Tensors &tensors, RouterGate gate, size_t top_k) {
    if (single_token_) {
        const bool search = limits_.substitute > 0 && choice_.has_replaceable(experts_, weights_, residency_);
        const cache::Forgone forgone = choice_.choose(
            experts_, weights_, residency_, search ? scores(layer, tensors, gate) : std::span<const float>(), limits_,
            budget_ ? budget_->allowance() : cache::kUnlimited, options_.drop_renorm);
        if (budget_) {
            budget_->forgo(forgone);
        }
        return forgone;
    }
    choice_.keep_needed(experts_, weights_, top_k, limits_, residency_);
    cache::Forgone all;
    for (size_t at = 0; at < experts_.size(); at += top_k) {
        const cache::Forgone forgone =
            choice_.choose(std::span(experts_).subspan(at, top_k), std::span(weights_).subspan(at, top_k), residency_,
                           {}, limits_, cache::kUnlimited, options_.drop_renorm);
        all.dropped += forgone.dropped;
        all.mass_dropped += forgone.mass_dropped;
    }
    return all;
}

std::span<const int32_t> LossyRouting::apply(uint16_t layer, const Tensors &tensors, std::span<const int32_t> experts,
                                             std::span<const float> weights, const ResidencyOf &residency) {
    const auto top_k = static_cast<size_t>(tensors.ids->ne[0]);
    const auto n_tokens = static_cast<size_t>(tensors.ids->ne[1]);
    if (!begin_layer(layer, n_tokens)) {
        return experts;
    }
    ++counters_.visits;
    counters_.routed += experts.size();
    counters_.mass_routed += n_tokens;
    const auto gate = tensors.weights != nullptr ? router_gate(tensors.weights, tensors.ids) : std::nullopt;
    if (!gate) {
        ++counters_.unweighted;
        note_once(
            noted_unweighted_,
            cat("lossy routing: expert layer ", layer,
                " of the model: the router's weights are not known when its experts are about to be read: nothing is "
                "dropped or replaced there, nor in others like it"));
        return experts;
    }
    if (!find_residency(layer, experts, residency)) {
        return experts;
    }
    experts_.assign(experts.begin(), experts.end());
    weights_.assign(weights.begin(), weights.end());
    const cache::Forgone forgone = choose(layer, tensors, *gate, top_k);
    if (!forgone.any()) {
        return experts;
    }
    counters_.dropped += forgone.dropped;
    counters_.substituted += forgone.substituted;
    counters_.mass_dropped += forgone.mass_dropped;
    counters_.mass_substituted += forgone.mass_substituted;
    write(tensors, top_k);
    return experts_;
}

void LossyRouting::write(const Tensors &tensors, size_t top_k) const {
    for (size_t at = 0; at < experts_.size(); at += top_k) {
        const auto token = at / top_k;
        const auto heaviest = std::max_element(weights_.begin() + static_cast<ptrdiff_t>(at),
                                               weights_.begin() + static_cast<ptrdiff_t>(at + top_k)) -
                              weights_.begin();
        for (size_t rank = 0; rank < top_k; ++rank) {
            const int32_t expert = experts_[at + rank];
            element<int32_t>(*tensors.ids, rank, token, 0) = expert == cache::kDropped ? experts_[heaviest] : expert;
            element<float>(*tensors.weights, 0, rank, token) = weights_[at + rank];
        }
    }
}

}  // namespace bmoe::backend
