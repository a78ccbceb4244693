// Which expert to evict. One interface for LRU, REAP and whatever comes next; knows ids and visits, not memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cache/expert_id.h"
#include "cache/geometry.h"

namespace bmoe::cache {

// The routing of one visit of a layer: tokens x top_k experts, row after row. `weights` are the router weights in the same
// order (any positive scale per token; may be empty: then all count the same).
struct Visit {
    uint16_t layer = 0;
    uint32_t n_tokens = 0;
    uint32_t top_k = 0;
    std::span<const int32_t> experts;
    std::span<const float> weights;
    Phase phase = Phase::kDecode;
};

// Single-threaded: the thread that runs the layers calls it.
class Policy {
  public:
    virtual ~Policy() = default;

    virtual std::string_view name() const = 0;

    // Routing of a layer is known. Called once per visit, before the layer's hits, admissions and evictions.
    virtual void visit(const Visit &visit) = 0;

    // Residency changed. `size_class` is the slot class of the expert's layer.
    virtual void inserted(ExpertId id) = 0;
    virtual void evicted(ExpertId id) = 0;

    // The resident expert of `size_class` that is worth least now, among those not pinned; empty if all are pinned.
    virtual std::optional<ExpertId> victim(uint32_t size_class) = 0;

    // Pinned experts are never victims. Pins count.
    virtual void pin(ExpertId id) = 0;
    virtual void unpin(ExpertId id) = 0;

    // During prefill the cache is not flooded: true if `candidate`, routed by the visit in progress, is worth more than the
    // resident `victim`.
    virtual bool prefers(ExpertId candidate, ExpertId victim) const = 0;

    // How often each expert was used of late, 0..1, layer after layer: what a later run can start from. Empty if the policy
    // does not count it.
    virtual std::vector<float> frequencies() const { return {}; }

    // Starts from the frequencies() of an earlier run, which fade as new ones come. Before the first visit. Does nothing in a
    // policy that does not count them.
    virtual void start_from(std::span<const float>) {}
};

enum class PolicyKind { kLru, kReap, kReapLite };

// `size_class[l]` is the slot class of layer l. Tables grow with layers x experts; for REAP also with layers x experts^2,
// unless that is above 64 MiB: then REAP-lite is made, which does without.
std::unique_ptr<Policy> make_policy(PolicyKind kind, const Geometry &geometry, std::span<const uint32_t> size_class);

}  // namespace bmoe::cache
