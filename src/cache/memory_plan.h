// Who gets the memory: an itemised plan, made before the expert slots are mapped.
#pragma once

#include <cstdint>
#include <string>

#include "cache/geometry.h"
#include "cache/memory_limits.h"

namespace bmoe::cache {

struct MemoryItems {
    uint64_t dense = 0;    // bytes: weights other than routed experts
    uint64_t kv = 0;       // bytes: KV cache and recurrent state
    uint64_t compute = 0;  // bytes: compute buffers
    uint64_t staging = 0;  // bytes: staging slices for experts that are not cached
    uint64_t other = 0;    // bytes: program, tables, allocator, vocabulary
};

struct MemoryPlan {
    MemoryItems items;
    uint64_t slots = 0;            // bytes for expert slots
    uint64_t experts = 0;          // bytes of experts in memory, of a model that is not streamed
    uint64_t total() const;        // all of it
    std::string describe() const;  // one line of items in MiB
};

// Plan for a fixed cache. `slots` of 0 means no cache.
MemoryPlan plan_fixed(const MemoryItems &items, uint64_t slots);

// What --cache-mb auto may take, in bytes.
struct CacheBounds {
    uint64_t ceiling = 0;  // 0: none
    uint64_t floor = 0;    // or none at all; never more than all experts need
};

// Plan for --cache-mb auto: what `free_bytes` (measured before anything of the plan was allocated) leaves after the items and
// a reserve, but not more than all experts need or the bounds allow; 0 if that is less than the smallest possible cache or the
// floor. Throws bmoe::Error with the itemised plan if the items alone do not fit.
MemoryPlan plan_auto(const MemoryItems &items, const Geometry &geometry, uint64_t free_bytes,
                     const CacheBounds &bounds = {});

// Bytes of `free_bytes` that are left alone where nobody asked for a fixed amount.
uint64_t reserve(uint64_t free_bytes);

// The least memory, in bytes, that has `bytes` beside its reserve.
uint64_t with_reserve(uint64_t bytes);

}  // namespace bmoe::cache
