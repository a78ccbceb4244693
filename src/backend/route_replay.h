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
    // Keeps the decode rows of `trace`. Throws bmoe::Error, naming `path`, unless layers, experts per layer and top-k are those
    // of `geometry` and every decoded token has a row of top-k experts for every layer.
    RouteReplay(const cache::RouteTrace &trace, const cache::Geometry &geometry, const std::string &path);

    // A visit of `layer` begins, selected by `ids` (I32, top_k x tokens, in host memory). While a single token is decoded, its
    // experts are overwritten by those of the trace's next token, after the last the first again. Ubatches of several tokens
    // keep their own, also in layers that llama.cpp computes only for the last of them.
    void apply(uint16_t layer, const ggml_tensor &ids);

    // A prompt's last tokens may be a batch of one: what is decoded from now on is a prompt's, or not.
    void set_in_prompt(bool on) { in_prompt_ = on; }

    uint32_t tokens() const { return tokens_; }  // decoded tokens in the trace

  private:
    uint32_t n_layer_ = 0;
    uint32_t top_k_ = 0;
    uint32_t tokens_ = 0;
    std::vector<int32_t> experts_;  // token x layer x rank

    std::vector<bool> visited_;  // per layer: in the current pass over the layers
    bool in_prompt_ = false;
    bool single_token_ = false;  // the current pass decodes one token
    uint64_t passes_ = 0;        // of a single token, so far
};

}  // namespace bmoe::backend
