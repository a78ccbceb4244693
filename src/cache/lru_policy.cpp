#include "cache/lru_policy.h"

#include <algorithm>
#include <cassert>

namespace bmoe::cache {

LruPolicy::LruPolicy(const Geometry &geometry, std::span<const uint32_t> size_class)
    : index_(geometry), size_class_(size_class.begin(), size_class.end()) {
    const uint32_t classes = size_class.empty() ? 0 : *std::max_element(size_class.begin(), size_class.end()) + 1;
    nodes_.resize(index_.count() + classes);
    for (uint32_t i = 0; i < nodes_.size(); ++i) nodes_[i].prev = nodes_[i].next = i;
    for (size_t layer = 0; layer < index_.layers(); ++layer) {
        for (size_t expert = 0; expert < index_.experts(layer); ++expert) {
            nodes_[index_.begin(layer) + expert].id = {static_cast<uint16_t>(layer), static_cast<uint16_t>(expert)};
        }
    }
}

void LruPolicy::visit(const Visit &visit) {
    for (int32_t expert : visit.experts) {
        const auto node = static_cast<uint32_t>(index_({visit.layer, static_cast<uint16_t>(expert)}));
        if (!nodes_[node].resident) continue;
        unlink(node);
        link_first(node);
    }
}

void LruPolicy::inserted(ExpertId id) {
    const auto node = static_cast<uint32_t>(index_(id));
    assert(!nodes_[node].resident);
    nodes_[node].resident = true;
    link_first(node);
}

void LruPolicy::evicted(ExpertId id) {
    const auto node = static_cast<uint32_t>(index_(id));
    assert(nodes_[node].resident);
    nodes_[node].resident = false;
    unlink(node);
}

std::optional<ExpertId> LruPolicy::victim(uint32_t size_class) {
    const uint32_t head = head_of(size_class);
    for (uint32_t node = nodes_[head].prev; node != head; node = nodes_[node].prev) {
        if (nodes_[node].pins == 0) return nodes_[node].id;
    }
    return std::nullopt;
}

void LruPolicy::pin(ExpertId id) { ++nodes_[index_(id)].pins; }

void LruPolicy::unpin(ExpertId id) {
    assert(nodes_[index_(id)].pins > 0);
    --nodes_[index_(id)].pins;
}

void LruPolicy::link_first(uint32_t node) {
    const uint32_t head = head_of(size_class_[nodes_[node].id.layer]);
    nodes_[node].prev = head;
    nodes_[node].next = nodes_[head].next;
    nodes_[nodes_[head].next].prev = node;
    nodes_[head].next = node;
}

void LruPolicy::unlink(uint32_t node) {
    nodes_[nodes_[node].prev].next = nodes_[node].next;
    nodes_[nodes_[node].next].prev = nodes_[node].prev;
}

}  // namespace bmoe::cache
