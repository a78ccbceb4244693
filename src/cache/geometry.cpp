#include "cache/geometry.h"

#include <numeric>

namespace bmoe::cache {

uint64_t Geometry::bytes() const {
    uint64_t total = 0;
    for (const LayerGeometry &layer : layers) {
        total += layer.n_expert * std::accumulate(layer.slice_bytes.begin(), layer.slice_bytes.end(), uint64_t{0});
    }
    return total;
}

}  // namespace bmoe::cache
