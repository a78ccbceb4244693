// Numbers the experts of all layers 0..count-1, layer after layer, so that tables of experts are flat vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/expert_id.h"
#include "cache/geometry.h"

namespace bmoe::cache {

class ExpertIndex {
  public:
    explicit ExpertIndex(const Geometry &geometry) {
        begin_.reserve(geometry.layers.size() + 1);
        begin_.push_back(0);
        for (const LayerGeometry &layer : geometry.layers) begin_.push_back(begin_.back() + layer.n_expert);
    }

    size_t layers() const { return begin_.size() - 1; }
    size_t count() const { return begin_.back(); }
    size_t experts(size_t layer) const { return begin_[layer + 1] - begin_[layer]; }
    size_t begin(size_t layer) const { return begin_[layer]; }
    size_t operator()(ExpertId id) const { return begin_[id.layer] + id.expert; }

  private:
    std::vector<size_t> begin_;
};

}  // namespace bmoe::cache
