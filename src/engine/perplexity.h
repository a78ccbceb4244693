// How well the model foresees a text, decoded one token at a time: as in real use, so that experts are cached, dropped and
// replaced as they would be there. A prompt decoded at once would price lossy routing far too low.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/generation.h"

namespace bmoe::engine {

struct Perplexity {
    uint64_t scored = 0;    // tokens
    double mean_nll = 0;    // negative log-likelihood of a token, in nats
    double nll_error = 0;   // standard error of that mean
    GenerationStats stats;  // every token decoded counts as generated, there is no prompt
    double value() const;   // exp(mean_nll)
    double error() const;   // of it, to first order
};

// The text is cut into windows that fill the context, each begun as the vocabulary wants. The first tokens of each only serve as
// context, kUnscored of them or a quarter of the window if that is less; at most `most` of the others are scored. `on_token`
// learns how many were. Engine::cancel() ends it early, and is no error. Forgets what the context held. Throws bmoe::Error, also
// for a text too short to score anything.
constexpr uint32_t kUnscored = 32;
Perplexity measure_perplexity(Engine &engine, std::span<const llama_token> text, uint64_t most,
                              const std::function<void(uint64_t)> &on_token);

}  // namespace bmoe::engine
