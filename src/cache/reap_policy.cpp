#include "cache/reap_policy.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "cache/fast_math.h"

namespace bmoe::cache {

namespace {

constexpr float kHalfLife = 32.0f;        // tokens
constexpr float kPrefillWeight = 0.3f;    // of a prompt's token against a generated one, in the hazard table
constexpr float kTransitionPower = 0.7f;  // of the transitions' odds in the score
constexpr float kFrequencyFloor = 1e-6f;  // keeps the logarithm finite
constexpr float kForgotten = 1e-9f;       // frequencies below are 0: the processor is slow with denormal numbers
constexpr uint16_t kNotResident = std::numeric_limits<uint16_t>::max();
constexpr float kNoWorst = std::numeric_limits<float>::infinity();

}  // namespace

ReapPolicy::ReapPolicy(const Geometry &geometry, std::span<const uint32_t> size_class, bool with_transitions)
    : index_(geometry),
      layers_(geometry.layers.size()),
      frequency_(index_.count()),
      age_(index_.count(), HazardTable::kOldest),
      cell_(index_.count(), HazardTable::row(HazardTable::kOldest)),
      score_(index_.count()),
      pins_(index_.count()),
      place_(index_.count(), kNotResident),
      position_(geometry.most_experts()),
      expected_(geometry.most_experts()) {
    if (with_transitions) transitions_.emplace(geometry);
    uint32_t most_selected = 0;
    for (const LayerGeometry &layer : geometry.layers) most_selected = std::max(most_selected, layer.top_k);
    now_.reserve(most_selected);
    weights_.reserve(most_selected);
    for (size_t l = 0; l < layers_.size(); ++l) {
        layers_[l].selected.reserve(most_selected);
        layers_[l].resident.reserve(geometry.layers[l].n_expert);
        if (size_class[l] >= class_layers_.size()) class_layers_.resize(size_class[l] + 1);
        class_layers_[size_class[l]].push_back(static_cast<uint32_t>(l));
    }
    for (size_t d = 0; d <= layers_.size(); ++d) {
        discount_.push_back(1.0f / (1.0f + static_cast<float>(d) / static_cast<float>(layers_.size())));
    }
}

void ReapPolicy::visit(const Visit &visit) {
    current_layer_ = visit.layer;
    if (visit.n_tokens == 0) return;
    for (uint32_t token = 0; token < visit.n_tokens; ++token) tick(visit, token);
    rate(visit);
}

// Everything but the frequencies is as if the experts had not been used for long.
void ReapPolicy::start_from(std::span<const float> frequencies) {
    assert(frequencies.size() == frequency_.size());
    std::copy(frequencies.begin(), frequencies.end(), frequency_.begin());
    for (size_t i = 0; i < frequency_.size(); ++i) {
        const float position = HazardTable::position(fast_log2(frequency_[i] + kFrequencyFloor));
        const uint8_t row = HazardTable::row(age_[i]);
        cell_[i] = static_cast<uint8_t>(row + HazardTable::column(position));
        score_[i] = hazard_.at(row, position);
    }
    for (Layer &layer : layers_) layer.worst_known = false;
}

// Learns one token's routing and moves the layer's clock on.
void ReapPolicy::tick(const Visit &visit, uint32_t token) {
    const auto selected = visit.experts.subspan(size_t{token} * visit.top_k, visit.top_k);
    learn(visit.layer, selected, visit.phase == Phase::kDecode ? 1.0f : kPrefillWeight);

    Layer &layer = layers_[visit.layer];
    const size_t begin = index_.begin(visit.layer);
    const size_t experts = index_.experts(visit.layer);
    const float fade = fast_exp2(-1.0f / kHalfLife);

    now_.assign(selected.begin(), selected.end());
    if (transitions_) transitions_->learn(visit.layer, layer.selected, now_);
    std::swap(layer.selected, now_);

    float *frequency = &frequency_[begin];
    uint8_t *age = &age_[begin];
    for (size_t e = 0; e < experts; ++e) {
        const float faded = frequency[e] * fade;
        frequency[e] = faded < kForgotten ? 0.0f : faded;
    }
    for (size_t e = 0; e < experts; ++e) {
        age[e] = static_cast<uint8_t>(age[e] + (age[e] < HazardTable::kOldest ? 1 : 0));
    }
    for (int32_t e : selected) {
        frequency[e] += 1.0f - fade;
        age[e] = 0;
    }

    float *position = position_.data();
    for (size_t e = 0; e < experts; ++e) {
        position[e] = HazardTable::position(fast_log2(frequency[e] + kFrequencyFloor));
    }
    uint8_t *cell = &cell_[begin];
    for (size_t e = 0; e < experts; ++e) {
        cell[e] = static_cast<uint8_t>(HazardTable::row(age[e]) + HazardTable::column(position[e]));
    }
}

// What the experts were before this token, and whether it used them.
void ReapPolicy::learn(size_t layer, std::span<const int32_t> selected, float weight) {
    const uint8_t *cell = &cell_[index_.begin(layer)];
    seen_.fill(0);
    used_.fill(0);
    for (size_t e = 0; e < index_.experts(layer); ++e) ++seen_[cell[e]];
    for (int32_t e : selected) ++used_[cell[e]];
    hazard_.learn(seen_, used_, weight);
}

// Scores the layer's experts after the visit's last token.
void ReapPolicy::rate(const Visit &visit) {
    Layer &layer = layers_[visit.layer];
    const size_t begin = index_.begin(visit.layer);
    const size_t experts = index_.experts(visit.layer);
    const float *frequency = &frequency_[begin];
    const uint8_t *age = &age_[begin];
    float *score = &score_[begin];
    layer.worst_known = false;

    for (size_t e = 0; e < experts; ++e) score[e] = hazard_.at(HazardTable::row(age[e]), position_[e]);
    if (!transitions_) return;

    const size_t last = size_t{visit.n_tokens - 1} * visit.top_k;
    weights_.assign(visit.top_k, 1.0f);
    if (!visit.weights.empty()) std::copy_n(&visit.weights[last], visit.top_k, weights_.begin());
    float sum = 0.0f;
    for (float w : weights_) sum += w;
    for (float &w : weights_) w = sum > 0.0f ? w / sum : 1.0f / static_cast<float>(visit.top_k);

    float *expected = expected_.data();
    transitions_->predict(visit.layer, layer.selected, weights_, frequency, expected);
    // Odds are multiplied by a power of expected use over usual use.
    const float floor = static_cast<float>(visit.top_k) / (4.0f * static_cast<float>(experts));
    for (size_t e = 0; e < experts; ++e) {
        const float ratio = (expected[e] + floor) / (frequency[e] + floor);
        const float odds = score[e] * fast_exp2(kTransitionPower * fast_log2(ratio));
        score[e] = odds / (odds + 1.0f - score[e]);
    }
}

void ReapPolicy::inserted(ExpertId id) {
    uint16_t &place = place_[index_(id)];
    assert(place == kNotResident);
    std::vector<uint16_t> &resident = layers_[id.layer].resident;
    place = static_cast<uint16_t>(resident.size());
    resident.push_back(id.expert);
    if (pins_[index_(id)] == 0) became_evictable(id);
}

void ReapPolicy::evicted(ExpertId id) {
    uint16_t &place = place_[index_(id)];
    assert(place != kNotResident);
    std::vector<uint16_t> &resident = layers_[id.layer].resident;
    place_[index_({id.layer, resident.back()})] = place;
    resident[place] = resident.back();
    resident.pop_back();
    place = kNotResident;
    no_longer_evictable(id);
}

void ReapPolicy::pin(ExpertId id) {
    if (pins_[index_(id)]++ == 0) no_longer_evictable(id);
}

void ReapPolicy::unpin(ExpertId id) {
    assert(pins_[index_(id)] > 0);
    if (--pins_[index_(id)] == 0 && place_[index_(id)] != kNotResident) became_evictable(id);
}

void ReapPolicy::became_evictable(ExpertId id) {
    Layer &layer = layers_[id.layer];
    if (!layer.worst_known || score(id) >= layer.worst_score) return;
    layer.worst = id.expert;
    layer.worst_score = score(id);
}

void ReapPolicy::no_longer_evictable(ExpertId id) {
    Layer &layer = layers_[id.layer];
    if (layer.worst == id.expert) layer.worst_known = false;
}

void ReapPolicy::find_worst(size_t l) {
    Layer &layer = layers_[l];
    const size_t begin = index_.begin(l);
    layer.worst_score = kNoWorst;
    for (uint16_t e : layer.resident) {
        if (pins_[begin + e] == 0 && score_[begin + e] < layer.worst_score) {
            layer.worst = e;
            layer.worst_score = score_[begin + e];
        }
    }
    layer.worst_known = true;
}

std::optional<ExpertId> ReapPolicy::victim(uint32_t size_class) {
    std::optional<ExpertId> worst;
    float least = kNoWorst;
    for (uint32_t l : class_layers_[size_class]) {
        if (!layers_[l].worst_known) find_worst(l);
        const size_t distance = l > current_layer_ ? l - current_layer_ : l + layers_.size() - current_layer_;
        const float worth = layers_[l].worst_score * discount_[distance];
        if (worth < least) {
            least = worth;
            worst = ExpertId{static_cast<uint16_t>(l), static_cast<uint16_t>(layers_[l].worst)};
        }
    }
    return worst;
}

}  // namespace bmoe::cache
