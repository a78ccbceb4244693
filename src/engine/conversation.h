// The tokens that an engine's context holds, and what of the next prompt is among them already.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/generation.h"

namespace bmoe::engine {

// Not thread-safe; the engine must outlive it, and only be decoded with through it.
class Conversation {
  public:
    // Forgets what the context holds.
    explicit Conversation(Engine &engine);

    // As engine::generate, but request.prompt is all of the conversation, from its first token. What the context holds of its
    // beginning stays, the rest of the context is forgotten, and only the rest of the prompt is decoded: stats.reused_tokens and
    // stats.prompt_tokens add up to the prompt. request.on_prompt learns how much of all of it is held: at first what was reused.
    // A model with a recurrent state cannot forget its last tokens alone: unless the prompt goes on where the context ends it
    // is decoded anew. The last bits of the logits can differ from those of a prompt decoded in one piece, as they do with
    // another ubatch.
    //
    // Throws bmoe::Error: tokens() is then what the context holds, as it is after Engine::cancel().
    void generate(const GenerationRequest &request, GenerationStats &stats);

    // In the context; the last generated token is not, until something follows it.
    std::span<const llama_token> tokens() const { return held_; }

    void reset();

  private:
    uint32_t reuse(std::span<const llama_token> prompt);

    Engine &engine_;
    std::vector<llama_token> held_;
};

}  // namespace bmoe::engine
