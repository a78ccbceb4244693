// Learns of every routing decision that experts are visited by, for traces.
#pragma once

#include <cstdint>
#include <span>

struct ggml_tensor;

namespace bmoe::backend {

class RouterGuess;

struct ObservedRouting {
    uint16_t layer = 0;  // index into the model's expert layers
    uint32_t n_tokens = 0;
    uint32_t top_k = 0;
    std::span<const int32_t> experts;    // tokens x top_k, the router's choice
    std::span<const int32_t> used;       // in their place; cache::kDropped: none
    std::span<const float> weights;      // likewise; empty: not known before the products
    std::span<const int32_t> resident;   // of these experts, each once: in the cache
    const ggml_tensor *input = nullptr;  // of the experts, F32 of [n, 1 or top_k, tokens]; nullptr: not known
};

class RouteObserver {
  public:
    virtual ~RouteObserver() = default;

    // On the thread that decodes, when the layer's visit begins; what `routing` points to lives as long as the call. Must not
    // throw.
    virtual void on_routing(const ObservedRouting &routing, RouterGuess &routers) = 0;
};

}  // namespace bmoe::backend
