// Shapes of a model's experts as the cache sees them: numbers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bmoe::cache {

struct LayerGeometry {
    uint32_t n_expert = 0;
    uint32_t top_k = 0;                 // experts a token selects; an upper bound where layers differ
    std::vector<uint64_t> slice_bytes;  // one per projection
};

struct Geometry {
    std::vector<LayerGeometry> layers;
    uint32_t block_size = 4096;     // of the files; a slot has room for a slice rounded out to blocks at both ends
    uint64_t bytes() const;         // all experts of all layers, without rounding
    uint32_t most_experts() const;  // of a layer
    size_t most_slices() const;     // of a layer's experts together
};

}  // namespace bmoe::cache
