#include "cache/memory_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/mib.h"
#include "cache/slot_pool.h"

namespace bmoe::cache {

namespace {

uint64_t sum(const MemoryItems &items) { return items.dense + items.kv + items.compute + items.staging + items.other; }

}  // namespace

// 64 MiB for what the plan cannot know (page tables, thread stacks, the allocator's waste) and 2 % of what is free, since
// MemAvailable is an estimate and other programs grow. Everything else is itemised, so no more is needed.
uint64_t reserve(uint64_t free_bytes) { return 64 * kMiB + free_bytes / 50; }

uint64_t MemoryPlan::total() const { return sum(items) + slots + experts; }

std::string MemoryPlan::describe() const {
    // Every item is rounded up, and the total is that of the rounded ones: what is read adds up.
    const uint64_t all = mib_up(items.dense) + mib_up(items.kv) + mib_up(items.compute) + mib_up(items.staging) +
                         mib_up(items.other) + mib_up(slots) + mib_up(experts);
    const std::string streamed = experts > 0 ? cat("experts ", mib_up(experts)) : cat("expert slots ", mib_up(slots));
    return cat("dense ", mib_up(items.dense), " MiB + KV ", mib_up(items.kv), " MiB + compute ", mib_up(items.compute),
               " MiB + staging ", mib_up(items.staging), " MiB + other ", mib_up(items.other), " MiB + ", streamed,
               " MiB = ", all, " MiB");
}

MemoryPlan plan_fixed(const MemoryItems &items, uint64_t slots) { return {items, slots, 0}; }

MemoryPlan plan_auto(const MemoryItems &items, const Geometry &geometry, uint64_t free_bytes,
                     const CacheBounds &bounds) {
    MemoryPlan plan{items, 0, 0};
    if (plan.total() > free_bytes) {
        throw Error(cat("the model does not fit into ", free_bytes / kMiB,
                        " MiB of free memory even without an expert cache: ", plan.describe(),
                        "; give a smaller context (-c), a smaller --ubatch, or free memory"));
    }
    const uint64_t kept = plan.total() + reserve(free_bytes);
    if (free_bytes <= kept) return plan;
    const uint64_t whole = SlotPool::whole_budget(geometry);
    const uint64_t most = bounds.ceiling > 0 ? std::min(bounds.ceiling, whole) : whole;
    const uint64_t budget = std::min(free_bytes - kept, most);
    const uint64_t least = std::max(SlotPool::minimum_budget(geometry), std::min(bounds.floor, whole));
    if (budget >= least) plan.slots = budget;
    return plan;
}

uint64_t with_reserve(uint64_t bytes) {
    uint64_t free_bytes = bytes;
    while (free_bytes - bytes < reserve(free_bytes)) free_bytes = bytes + reserve(free_bytes);
    return free_bytes;
}

}  // namespace bmoe::cache
