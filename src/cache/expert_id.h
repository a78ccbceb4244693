// Names of things in the expert cache.
#pragma once

#include <cstdint>

namespace bmoe::cache {

// One routed expert: an expert layer (an index into the model's list of expert layers, not the block number) and an expert.
struct ExpertId {
    uint16_t layer = 0;
    uint16_t expert = 0;
    friend bool operator==(ExpertId, ExpertId) = default;
};

// What the model computes when a layer is visited: a prompt's ubatch of many tokens, or one token being generated.
enum class Phase : uint8_t { kPrefill, kDecode };

}  // namespace bmoe::cache
