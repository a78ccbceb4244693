// Recorded routing in place of the router's: a run reads and caches experts as the recorded model did, while it computes with
// the weights of the open one. For measurement; the text is meaningless.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/geometry.h"
#include "cache/route_trace.h"

struct ggml_tensor;

namespace bmoe::backend {

// Not thread-safe: the thread that decodes calls it.
class RouteReplay {
  public:
    // Throws bmoe::Error, naming `path`, unless layers, experts per layer and top-k are those of `geometry` and every decoded
    // token of `trace` has a row of top-k experts for every layer. A prompt may have been recorded or not; its last layers may
    // have fewer rows, as llama.cpp computes them only for tokens whose logits are wanted.
    RouteReplay(const cache::RouteTrace &trace, const cache::Geometry &geometry, const std::string &path);

    // A visit of `layer` begins, selected by `ids` (I32, top_k x tokens, in host memory), which are overwritten: those of a
    // prompt by the trace's prompt, token by token, those of a decoded token by the trace's next decoded token; after the last
    // the first again. Without a recorded prompt, a prompt keeps its own.
    void apply(uint16_t layer, const ggml_tensor &ids);

    // A prompt's last tokens may be a batch of one: what is decoded from now on is a prompt's, or not.
    void set_in_prompt(bool on) { in_prompt_ = on; }

    uint32_t decoded_tokens() const { return decode_.tokens; }  // in the trace
    uint32_t prompt_tokens() const { return prompt_.tokens; }

  private:
    // What was recorded of one phase.
    struct Routing {
        uint32_t tokens = 0;  // rows of the layer that has most
        std::vector<std::vector<int32_t>>
            experts;  // by layer: token x rank, the last tokens where there are fewer rows
    };

    Routing collect(const cache::RouteTrace &trace, cache::Phase phase, const std::string &path) const;
    const int32_t *row(const Routing &routing, uint16_t layer, uint64_t token) const;

    size_t n_layer_ = 0;
    uint32_t top_k_ = 0;
    Routing prompt_;
    Routing decode_;

    std::vector<bool> visited_;  // per layer: in the current pass over the layers
    bool in_prompt_ = false;
    // The current pass.
    bool decodes_ = false;  // one token that is not a prompt's
    int64_t pass_tokens_ = 0;
    uint64_t first_ = 0;  // its first token, of all prompts' or of all decoded ones
    // Tokens before the current pass and in it.
    uint64_t prompted_ = 0;
    uint64_t decoded_ = 0;
};

}  // namespace bmoe::backend
