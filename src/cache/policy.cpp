#include "cache/policy.h"

#include "cache/lru_policy.h"
#include "cache/reap_policy.h"

namespace bmoe::cache {

namespace {

constexpr uint64_t kMostTransitionBytes = uint64_t{64} << 20;

}  // namespace

std::unique_ptr<Policy> make_policy(PolicyKind kind, const Geometry &geometry, std::span<const uint32_t> size_class) {
    if (kind == PolicyKind::kLru) return std::make_unique<LruPolicy>(geometry, size_class);
    const bool with_transitions = kind == PolicyKind::kReap && TransitionTable::bytes(geometry) <= kMostTransitionBytes;
    return std::make_unique<ReapPolicy>(geometry, size_class, with_transitions);
}

}  // namespace bmoe::cache
