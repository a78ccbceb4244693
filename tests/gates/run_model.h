// Runs a model and returns every logit it computed, for comparisons to the bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace bmoe::gates {

struct Script {
    uint32_t prompt_tokens = 64;
    uint32_t decode_tokens = 8;  // greedy, one at a time
};

// Logits of all prompt positions and of each decoded token, one after the other, from an empty context.
std::vector<float> run_script(engine::Engine &engine, const Script &script);

// The same in any context of llama.cpp's.
std::vector<float> run_script(llama_context *context, const Script &script);

// Options of a gate: small context, no dense repacking unless asked for (resident and streamed must use the same kernels).
engine::Options gate_options(const std::string &model, bool stream);

// The tiny models with experts: names of files in folder(), with `shards` also that of a shard of each sharded form. And what a
// test may be called by such a name.
enum class Shards { kWith, kWithout };
std::string folder();
std::vector<std::string> models_with_experts(Shards shards);
std::string test_name(std::string file);

// Index of the first difference in bits, or -1.
int64_t first_difference(const std::vector<float> &a, const std::vector<float> &b);

}  // namespace bmoe::gates
