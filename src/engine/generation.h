// One generation: a prompt, then tokens until the model or the caller ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/expert_store.h"
#include "engine/engine.h"
#include "telemetry/bound.h"
#include "telemetry/process_usage.h"

namespace bmoe::engine {

// What happened between two moments of a run.
struct Interval {
    double seconds = 0;
    telemetry::ProcessUsage usage;   // difference
    backend::StoreCounters experts;  // difference; zero when nothing is streamed
};

struct GenerationStats {
    uint32_t prompt_tokens = 0;
    uint32_t generated = 0;            // tokens handed to the caller
    bool context_full = false;         // ended because no token fits into the context any more
    Interval prompt;                   // decoding the prompt, to the first token
    Interval decode;                   // decoding the generated tokens: one step each, the last token's is not needed
    std::vector<double> step_seconds;  // of each decode step
};

// What the decode of `stats` is to be held against.
telemetry::BoundInput bound_input(const Engine &engine, const GenerationStats &stats);

// Called with each token's text as it comes; false ends the generation.
using OnText = std::function<bool(std::string_view)>;

// What a token that ends the answer does: ends the generation, or is decoded like any other (for measurement).
enum class AtEnd { kStop, kGoOn };

// Decodes `prompt` (at least one token) after what the context holds and generates up to `max_tokens` greedily. Throws
// bmoe::Error; `stats` then holds what was measured up to there.
void generate(Engine &engine, std::span<const llama_token> prompt, uint32_t max_tokens, const OnText &on_text,
              GenerationStats &stats, AtEnd at_end = AtEnd::kStop);

}  // namespace bmoe::engine
