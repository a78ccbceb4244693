// How the next token is chosen.
#pragma once

#include <cstdint>

#include "engine/llama_handles.h"

namespace bmoe::engine {

// llama.cpp's samplers of these names, in its order: top-k, top-p, min-p, temperature. Its defaults, except that without a
// temperature the likeliest token is taken.
struct Sampling {
    float temperature = 0;               // 0: greedy, and the rest has no effect
    int32_t top_k = 40;                  // 0: off
    float top_p = 0.95F;                 // 1: off
    float min_p = 0.05F;                 // 0: off
    uint32_t seed = LLAMA_DEFAULT_SEED;  // this value: another one each time
};

SamplerPtr make_sampler(const Sampling &sampling);

}  // namespace bmoe::engine
