#include "cache/expert_cache.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include "cache/expert_index.h"

namespace bmoe::cache {

struct ExpertCache::Impl {
    Impl(const Geometry &geometry, uint64_t budget, PolicyKind kind) : index(geometry), slots(index.count()) {
        for (const LayerGeometry &layer : geometry.layers) {
            top_k.push_back(layer.top_k);
            expert_bytes.push_back(std::accumulate(layer.slice_bytes.begin(), layer.slice_bytes.end(), uint64_t{0}));
        }
        if (budget == 0) return;
        pool.emplace(geometry, budget);
        reserve.assign(pool->classes(), 0);
        policy = make_policy(kind, geometry, pool->class_of_layers());
    }

    Slot *&slot_of(ExpertId id) { return slots[index(id)]; }

    // Whether a slot is free that is not kept for guesses.
    bool has_spare(ExpertId id) const {
        const uint32_t size_class = pool->class_of(id.layer);
        return pool->free_slots(size_class) > reserve[size_class];
    }

    // The resident expert that is to give way; empty if there is none, or in prefill none that is worth less.
    std::optional<ExpertId> victim_for(ExpertId id, Phase phase) const {
        const std::optional<ExpertId> victim = policy->victim(pool->class_of(id.layer));
        const bool gives_way = victim && (phase != Phase::kPrefill || policy->prefers(id, *victim));
        return gives_way ? victim : std::nullopt;
    }

    // A free slot, or that of an expert that is thrown out for `id`; nullptr if there is none to be had.
    Slot *make_room(ExpertId id, Phase phase) {
        if (has_spare(id)) return pool->take_free(pool->class_of(id.layer));
        const std::optional<ExpertId> victim = victim_for(id, phase);
        if (!victim) return nullptr;
        Slot *slot = slot_of(*victim);
        forget(*victim);
        ++counters.evictions;
        return slot;
    }

    static void clear(Slot &slot, ExpertId id) {
        slot.id = id;
        for (Slice &slice : slot.slices) {
            slice.data = nullptr;
            slice.state.store(SliceState::kEmpty, std::memory_order_relaxed);
        }
    }

    void insert(Slot &slot) {
        slot_of(slot.id) = &slot;
        policy->inserted(slot.id);
        ++resident;
        resident_bytes += expert_bytes[slot.id.layer];
        ++counters.admissions;
    }

    void forget(ExpertId id) {
        policy->evicted(id);
        slot_of(id) = nullptr;
        --resident;
        resident_bytes -= expert_bytes[id.layer];
    }

    ExpertIndex index;
    std::vector<Slot *> slots;  // by expert; nullptr if it is not resident
    std::optional<SlotPool> pool;
    std::vector<uint64_t> reserve;  // by size class: free slots that admissions leave
    std::unique_ptr<Policy> policy;
    CacheCounters counters;
    uint64_t resident = 0;
    uint64_t resident_bytes = 0;
    std::vector<uint64_t> expert_bytes;  // by layer
    std::vector<uint32_t> top_k;         // by layer
};

ExpertCache::ExpertCache(const Geometry &geometry, uint64_t budget, PolicyKind policy)
    : impl_(std::make_unique<Impl>(geometry, budget, policy)) {}

ExpertCache::~ExpertCache() = default;

void ExpertCache::visit(const Visit &visit) {
    if (impl_->policy) impl_->policy->visit(visit);
}

Slot *ExpertCache::find_and_pin(ExpertId id) {
    Slot *slot = impl_->slot_of(id);
    if (slot == nullptr) {
        ++impl_->counters.misses;
        return nullptr;
    }
    ++impl_->counters.hits;
    impl_->policy->pin(id);
    return slot;
}

Slot *ExpertCache::admit(ExpertId id, Phase phase) {
    assert(impl_->slot_of(id) == nullptr);
    if (!impl_->pool) return nullptr;
    Slot *slot = impl_->make_room(id, phase);
    if (slot == nullptr) return nullptr;
    Impl::clear(*slot, id);
    impl_->policy->pin(id);
    impl_->insert(*slot);
    return slot;
}

bool ExpertCache::would_admit(ExpertId id) const {
    if (!impl_->pool) return false;
    return impl_->has_spare(id) || impl_->victim_for(id, Phase::kPrefill).has_value();
}

void ExpertCache::reserve_for_guesses(uint32_t slots) {
    if (!impl_->pool) return;
    // More would be felt as misses. A visit of a layer needs top-k slots at once.
    constexpr uint64_t kShare = 16;
    const std::span<const uint32_t> class_of = impl_->pool->class_of_layers();
    for (uint32_t c = 0; c < impl_->pool->classes(); ++c) {
        uint64_t experts = 0;
        uint64_t needed = 0;
        for (size_t layer = 0; layer < class_of.size(); ++layer) {
            if (class_of[layer] == c) {
                experts += impl_->index.experts(layer);
                needed = std::max<uint64_t>(needed, impl_->top_k[layer]);
            }
        }
        const uint64_t all = impl_->pool->slots(c);
        const uint64_t most = std::max(all / kShare, std::min<uint64_t>(2, all - std::min(all, needed)));
        impl_->reserve[c] = all >= experts ? 0 : std::min<uint64_t>(slots, most);
    }
}

void ExpertCache::adopt(Slot *slot) {
    const ExpertId id = slot->id;
    assert(impl_->slot_of(id) == nullptr);
    const uint32_t size_class = impl_->pool->class_of(id.layer);
    if (impl_->pool->free_slots(size_class) < impl_->reserve[size_class]) {
        if (const std::optional<ExpertId> victim = impl_->policy->victim(size_class)) {
            impl_->pool->give_back(impl_->slot_of(*victim));
            impl_->forget(*victim);
            ++impl_->counters.evictions;
        }
    }
    impl_->policy->pin(id);
    impl_->insert(*slot);
}

void ExpertCache::unpin(Slot *slot) {
    assert(impl_->slot_of(slot->id) == slot);
    impl_->policy->unpin(slot->id);
}

void ExpertCache::discard(Slot *slot) {
    assert(impl_->slot_of(slot->id) == slot);
    impl_->policy->unpin(slot->id);
    impl_->forget(slot->id);
    impl_->pool->give_back(slot);
}

void ExpertCache::start_from(std::span<const float> frequencies) {
    if (impl_->policy) impl_->policy->start_from(frequencies);
}

Slot *ExpertCache::reserve(ExpertId id) {
    assert(impl_->slot_of(id) == nullptr);
    if (!impl_->pool) return nullptr;
    return impl_->has_spare(id) ? reserve_guess(id) : nullptr;
}

Slot *ExpertCache::reserve_guess(ExpertId id) {
    if (!impl_->pool) return nullptr;
    Slot *slot = impl_->pool->take_free(impl_->pool->class_of(id.layer));
    if (slot != nullptr) Impl::clear(*slot, id);
    return slot;
}

void ExpertCache::publish(Slot *slot) {
    assert(impl_->slot_of(slot->id) == nullptr);
    impl_->insert(*slot);
}

void ExpertCache::give_back(Slot *slot) {
    assert(impl_->slot_of(slot->id) != slot);
    impl_->pool->give_back(slot);
}

void ExpertCache::prefault_ahead() {
    if (impl_->pool) impl_->pool->prefault_ahead();
}

bool ExpertCache::resident(ExpertId id) const { return impl_->slot_of(id) != nullptr; }

uint64_t ExpertCache::resident_count() const { return impl_->resident; }

uint64_t ExpertCache::resident_bytes() const { return impl_->resident_bytes; }

const CacheCounters &ExpertCache::counters() const { return impl_->counters; }

PoolUsage ExpertCache::usage() const { return impl_->pool ? impl_->pool->usage() : PoolUsage{}; }

const Policy *ExpertCache::policy() const { return impl_->policy.get(); }

}  // namespace bmoe::cache
