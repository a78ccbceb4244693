#include "cache/geometry.h"

#include <algorithm>
#include <numeric>

namespace bmoe::cache {

uint64_t Geometry::bytes() const {
    uint64_t total = 0;
    for (const LayerGeometry &layer : layers) {
        total += layer.n_expert * std::accumulate(layer.slice_bytes.begin(), layer.slice_bytes.end(), uint64_t{0});
    }
    return total;
}

uint32_t Geometry::most_experts() const {
    uint32_t most = 0;
    for (const LayerGeometry &layer : layers) most = std::max(most, layer.n_expert);
    return most;
}

size_t Geometry::most_slices() const {
    size_t most = 0;
    for (const LayerGeometry &layer : layers) most = std::max(most, layer.n_expert * layer.slice_bytes.size());
    return most;
}

}  // namespace bmoe::cache
