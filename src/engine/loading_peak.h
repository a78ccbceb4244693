// How much memory a model's weights take at most while llama.cpp loads them.
#pragma once

#include <cstdint>
#include <vector>

#include "llama.h"

namespace bmoe::engine {

// The weights that llama.cpp puts into one type of buffer.
struct LoadedWeights {
    struct Weight {
        uint64_t file_bytes = 0;
        uint64_t held_bytes = 0;  // in the buffer; more, where they are rearranged into something larger
    };
    // Each weight is read into memory of its own first, and rearranged from there. Largest first, by bytes of the file.
    bool staged = false;
    std::vector<Weight> weights;
};

// Those of a model that was only measured, in the order in which llama.cpp loads them without mmap: buffers whose weights are
// staged come first, in the order of their names; within one the largest weights do. Streamed experts take nothing and are not
// among them.
std::vector<LoadedWeights> weights_to_load(const llama_model *measured);

// Bytes at the worst moment of loading them in this order.
uint64_t most_while_loading(const std::vector<LoadedWeights> &all);

}  // namespace bmoe::engine
