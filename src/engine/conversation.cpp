#include "engine/conversation.h"

#include <algorithm>

#include "base/error.h"

namespace bmoe::engine {

Conversation::Conversation(Engine &engine) : engine_(engine) { engine_.reset(); }

void Conversation::reset() {
    engine_.reset();
    held_.clear();
}

// The last token is decoded in any case: its logits are needed.
uint32_t Conversation::reuse(std::span<const llama_token> prompt) {
    const size_t most = std::min(held_.size(), prompt.size() - 1);
    const auto common =
        std::mismatch(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(most), prompt.begin()).first;
    const uint32_t kept = engine_.keep_first(static_cast<uint32_t>(common - held_.begin()));
    held_.resize(kept);
    return kept;
}

void Conversation::generate(const GenerationRequest &request, GenerationStats &stats) {
    stats = {};
    const uint32_t n_ctx = llama_n_ctx(engine_.context());
    if (request.prompt.size() > n_ctx) {
        throw Error(cat("the prompt has ", request.prompt.size(), " tokens, but the context holds ", n_ctx,
                        "; give a larger -c"));
    }
    const uint32_t reused = request.prompt.empty() ? 0 : reuse(request.prompt);
    GenerationRequest rest = request;
    rest.prompt = request.prompt.subspan(reused);
    if (request.on_prompt) {
        rest.on_prompt = [&](size_t done) { request.on_prompt(reused + done); };
        request.on_prompt(reused);
    }
    const auto note_held = [&] {
        stats.reused_tokens = reused;
        held_.insert(held_.end(), rest.prompt.begin(), rest.prompt.end());
        held_.insert(held_.end(), stats.tokens.begin(), stats.tokens.end());
        held_.resize(engine_.held_tokens());
    };
    try {
        engine::generate(engine_, rest, stats);
    } catch (...) {
        note_held();
        throw;
    }
    note_held();
}

}  // namespace bmoe::engine
