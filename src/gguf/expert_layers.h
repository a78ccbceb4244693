// Where a model's routed experts lie: which tensors hold them and which of those are selected from together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/tensor.h"

namespace bmoe::gguf {

// One expert tensor: the same projection of all experts of a layer. Expert e occupies
// [offset + e * bytes_per_expert, + bytes_per_expert) of its shard.
struct Bank {
    std::string tensor;      // full name, e.g. "blk.3.ffn_down_exps.weight"
    std::string projection;  // the part between "ffn_" and "_exps": "gate", "up", "down", "gate_up", ...
    uint32_t shard = 0;
    uint64_t offset = 0;            // bytes from the start of the shard
    uint64_t bytes_per_expert = 0;  // one slice
    uint32_t n_expert = 0;
    uint32_t type = 0;  // ggml type id
};

// The banks that one routing decision selects from: the expert tensors of one block and one family
// ("exps", or "chexps" where a model has a second, chunked set with its own ids).
struct ExpertLayer {
    uint32_t block = 0;                 // N of "blk.N."
    std::string family;                 // "exps", "chexps"
    uint32_t n_expert = 0;              // the same for all its banks
    std::vector<Bank> banks;            // in file order (shard, offset)
    uint64_t bytes_per_expert() const;  // sum over banks
};

// Finds the banks among a model's tensors: "blk.N.ffn_<projection>_<family>.weight" with three dimensions, the last of
// which counts the experts. Biases and scales of experts are dense tensors. Layers come by block, "exps" before
// "chexps". Throws bmoe::Error, naming `path` and the tensors, if banks of one layer hold different numbers of experts.
std::vector<ExpertLayer> find_expert_layers(const std::vector<Tensor> &tensors, const std::string &path);

}  // namespace bmoe::gguf
