// One generation: a prompt, then tokens until the model or the caller ends it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/interval_meter.h"
#include "engine/sampling.h"
#include "telemetry/bound.h"

namespace bmoe::engine {

// What a token that ends the answer does: ends the generation, or is decoded like any other (for measurement).
enum class AtEnd { kStop, kGoOn };

enum class StopReason {
    kEndOfText,  // the model's
    kMaxTokens,
    kContextFull,  // no token fits into the context any more
    kCaller,       // on_text returned false
    kCancelled     // Engine::cancel()
};

struct GenerationStats {
    uint32_t prompt_tokens = 0;       // decoded
    uint32_t reused_tokens = 0;       // of the prompt, that the context held already (Conversation)
    uint32_t generated = 0;           // tokens handed to the caller
    std::vector<llama_token> tokens;  // these
    StopReason stop = StopReason::kMaxTokens;
    Interval prompt;                   // decoding the prompt, to the first token
    Interval decode;                   // decoding the generated tokens: one step each, the last token's is not needed
    std::vector<double> step_seconds;  // of each decode step
};

// A decode step of one generated token.
struct Step {
    uint32_t index = 0;  // from 0
    llama_token token = 0;
    Interval interval;
};

// All are called on the thread that generates.
struct GenerationRequest {
    std::span<const llama_token> prompt;  // at least one; decoded after what the context holds
    uint32_t max_tokens = 128;
    AtEnd at_end = AtEnd::kStop;
    Sampling sampling;
    // Each token's text as it comes; may hold part of a UTF-8 character. False ends the generation.
    std::function<bool(std::string_view)> on_text;
    std::span<const llama_token> markers;   // control tokens whose text on_text gets too; of others it gets none
    std::function<void(size_t)> on_prompt;  // after each ubatch of the prompt: its tokens that are done; may be empty
    std::function<void(const Step &)> on_step;  // may be empty; costs some system calls a token if not
};

// Throws bmoe::Error; `stats` then holds what was measured up to there. Engine::cancel() is no error.
void generate(Engine &engine, const GenerationRequest &request, GenerationStats &stats);

// What the decode of `stats` is to be held against.
telemetry::BoundInput bound_input(const Engine &engine, const GenerationStats &stats);

// What the prompt of `stats` is to be held against.
telemetry::PromptBoundInput prompt_bound_input(const Engine &engine, const GenerationStats &stats);

}  // namespace bmoe::engine
