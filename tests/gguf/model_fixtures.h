// Models for tests, small but of the shapes that occur.
#pragma once

#include <string>
#include <vector>

#include "tests/gguf/gguf_writer.h"

namespace bmoe::gguf::test {

// Ids of ggml types.
inline constexpr uint32_t kF32 = 0;
inline constexpr uint32_t kF16 = 1;
inline constexpr uint32_t kQ8_0 = 8;
inline constexpr uint32_t kQ4_K = 12;
inline constexpr uint32_t kQ6_K = 14;
inline constexpr uint32_t kMxfp4 = 39;

// Metadata of a model whose tokens use 2 experts.
GgufWriter metadata(const std::string &name = "test model");

// One dense layer, then two layers of 4 experts with gate, up and down in types that differ between the layers.
GgufWriter moe_model();

// Experts with gate and up in one tensor, with biases and scales.
GgufWriter merged_gate_up_model();

// Experts without a gate.
GgufWriter gateless_model();

// Two sets of experts in each layer, 4 "exps" and 2 "chexps".
GgufWriter chunked_model();

// A model in `count` shards, as llama-gguf-split makes them: only the first has `metadata_only`.
struct Split {
    std::vector<GgufWriter> shards;
    std::vector<std::string> names;  // <prefix>-00001-of-0000n.gguf
};
Split split(const GgufWriter &metadata_only, const std::vector<TensorSpec> &tensors, uint16_t count,
            const std::string &prefix);

}  // namespace bmoe::gguf::test
