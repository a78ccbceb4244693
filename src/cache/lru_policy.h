// Least recently used, over all layers of a size class.
#pragma once

#include <vector>

#include "cache/expert_index.h"
#include "cache/policy.h"

namespace bmoe::cache {

class LruPolicy final : public Policy {
  public:
    LruPolicy(const Geometry &geometry, std::span<const uint32_t> size_class);

    std::string_view name() const override { return "lru"; }
    void visit(const Visit &visit) override;
    void inserted(ExpertId id) override;
    void evicted(ExpertId id) override;
    std::optional<ExpertId> victim(uint32_t size_class) override;
    void pin(ExpertId id) override;
    void unpin(ExpertId id) override;

    // Recency says nothing about an expert that a prompt passes by: a prompt fills free slots only.
    bool prefers(ExpertId, ExpertId) const override { return false; }

  private:
    // One circular list per size class, most recently used first. Node i < index_.count() is an expert, the nodes behind
    // them are the heads of the lists.
    struct Node {
        uint32_t prev, next;
        uint32_t pins = 0;
        bool resident = false;
        ExpertId id;
    };

    uint32_t head_of(uint32_t size_class) const { return static_cast<uint32_t>(index_.count()) + size_class; }
    void link_first(uint32_t node);
    void unlink(uint32_t node);

    ExpertIndex index_;
    std::vector<uint32_t> size_class_;  // by layer
    std::vector<Node> nodes_;
};

}  // namespace bmoe::cache
