// The bounded cache of experts: which are resident, in which slot, and which may be thrown out. Knows nothing of files: its
// user fills the slots it hands out.
//
// Single-threaded except for Slice::state, which readers publish with release order and users load with acquire order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/policy.h"
#include "cache/slot_pool.h"

namespace bmoe::cache {

struct CacheCounters {
    uint64_t hits = 0;    // experts found resident by routed()
    uint64_t misses = 0;  // and not
    uint64_t admissions = 0;
    uint64_t evictions = 0;

    CacheCounters since(const CacheCounters &earlier) const {
        return {hits - earlier.hits, misses - earlier.misses, admissions - earlier.admissions,
                evictions - earlier.evictions};
    }
};

class ExpertCache {
  public:
    // `budget` in bytes; 0 means no cache: nothing is ever resident. See SlotPool for budgets that are refused.
    ExpertCache(const Geometry &geometry, uint64_t budget, PolicyKind policy);
    ~ExpertCache();

    // Starts a visit of a layer: the policy learns its routing. Call first.
    void visit(const Visit &visit);

    // Looks up an expert of the visit in progress and counts a hit or a miss. The slot of a hit is pinned; nullptr on a miss.
    Slot *find_and_pin(ExpertId id);

    // A slot for a missing expert, pinned, its slices kEmpty; the caller fills them. In decode always, by evicting the
    // policy's victim; in prefill only into a free slot or over a victim that the policy thinks less of. nullptr if every
    // slot is pinned or none is worth giving up: the caller then stages the expert elsewhere.
    Slot *admit(ExpertId id, Phase phase);

    // Whether admit() would find a slot for the expert in prefill, as of now.
    bool would_admit(ExpertId id) const;

    // Slots to be read into before it is known that they are needed. As many of each size class are kept free for it: from now
    // on admit() evicts rather than takes one of them. Fewer in a small cache, none in one that holds every expert.
    void reserve_for_guesses(uint32_t slots);

    void unpin(Slot *slot);

    // The slot's contents are no good (a read failed): forget the expert. The slot must be pinned once, by the caller.
    void discard(Slot *slot);

    // --- filling the cache before anything asks for an expert ---

    // See Policy::start_from().
    void start_from(std::span<const float> frequencies);

    // A free slot for an expert that is not resident, its slices kEmpty; the caller fills them. The expert is not resident
    // until publish() or adopt(), and until then the slot may be handed back by give_back(). nullptr if no slot is free; those
    // that are kept free for guesses are for them only.
    Slot *reserve(ExpertId id);
    Slot *reserve_guess(ExpertId id);
    void publish(Slot *slot);
    // As publish(), for a routed expert: pinned, and where too few slots are left for guesses, a victim makes up for it.
    void adopt(Slot *slot);
    void give_back(Slot *slot);

    // See SlotPool::prefault_ahead().
    void prefault_ahead();

    bool resident(ExpertId id) const;
    uint64_t resident_count() const;
    uint64_t resident_bytes() const;  // of the experts, rounding of their slots not included
    const CacheCounters &counters() const;
    PoolUsage usage() const;
    const Policy *policy() const;  // nullptr without a cache

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace bmoe::cache
