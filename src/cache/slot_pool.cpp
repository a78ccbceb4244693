#include "cache/slot_pool.h"

#include <cassert>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/mib.h"
#include "cache/arena.h"
#include "cache/prefaulter.h"
#include "cache/slot_layout.h"

namespace bmoe::cache {

namespace {

SlotLayout divided(const Geometry &geometry, uint64_t budget) {
    SlotPool::check_budget(geometry, budget);
    SlotLayout layout(geometry);
    layout.divide(budget);
    return layout;
}

}  // namespace

struct SlotPool::Impl {
    Impl(const Geometry &geometry, uint64_t budget)
        : layout(divided(geometry, budget)), arena(layout.slot_bytes()), free(layout.classes().size()) {
        for (const SizeClass &c : layout.classes()) count += c.slots;
        slots = std::make_unique<Slot[]>(count);
        std::byte *room = arena.data();
        Slot *slot = slots.get();
        for (uint32_t size_class = 0; size_class < free.size(); ++size_class) {
            const SizeClass &c = layout.classes()[size_class];
            for (uint64_t i = 0; i < c.slots; ++i, ++slot) {
                slot->size_class = size_class;
                slot->slices = std::vector<Slice>(c.slice_room.size());
                for (size_t s = 0; s < c.slice_room.size(); ++s) {
                    slot->slices[s].room = room;
                    room += c.slice_room[s];
                }
            }
            // Taken from the back: lowest addresses first, so that huge pages fill up one after the other.
            free[size_class].reserve(c.slots);
            for (uint64_t i = 1; i <= c.slots; ++i) free[size_class].push_back(slot - i);
        }
    }

    SlotLayout layout;
    Arena arena;
    uint64_t count = 0;
    std::unique_ptr<Slot[]> slots;
    std::vector<std::vector<Slot *>> free;  // by size class
    std::optional<Prefaulter> prefaulter;   // after the arena, so that it ends before
};

SlotPool::SlotPool(const Geometry &geometry, uint64_t budget) : impl_(std::make_unique<Impl>(geometry, budget)) {}

SlotPool::~SlotPool() = default;

uint64_t SlotPool::minimum_budget(const Geometry &geometry) { return SlotLayout(geometry).smallest_bytes(); }

uint64_t SlotPool::whole_budget(const Geometry &geometry) { return SlotLayout(geometry).whole_bytes(); }

void SlotPool::check_budget(const Geometry &geometry, uint64_t budget) {
    const uint64_t least = minimum_budget(geometry);
    if (budget < least) {
        throw Error(cat("the expert cache needs at least ", mib_up(least), " MiB, but got ", budget >> 20,
                        " MiB: every kind of expert needs slots for a token's top-k; give --cache-mb ", mib_up(least),
                        " or more, or --cache-mb 0 for no cache"));
    }
}

uint32_t SlotPool::classes() const { return static_cast<uint32_t>(impl_->free.size()); }

uint32_t SlotPool::class_of(uint16_t layer) const { return impl_->layout.class_of_layers()[layer]; }

std::span<const uint32_t> SlotPool::class_of_layers() const { return impl_->layout.class_of_layers(); }

Slot *SlotPool::take_free(uint32_t size_class) {
    std::vector<Slot *> &free = impl_->free[size_class];
    if (free.empty()) return nullptr;
    Slot *slot = free.back();
    free.pop_back();
    if (impl_->prefaulter) {
        const std::byte *end = slot->slices.back().room + impl_->layout.classes()[size_class].slice_room.back();
        impl_->prefaulter->used(static_cast<uint64_t>(end - impl_->arena.data()));
    }
    return slot;
}

uint64_t SlotPool::free_slots(uint32_t size_class) const { return impl_->free[size_class].size(); }

uint64_t SlotPool::slots(uint32_t size_class) const { return impl_->layout.classes()[size_class].slots; }

void SlotPool::give_back(Slot *slot) {
    assert(impl_->free[slot->size_class].size() < impl_->layout.classes()[slot->size_class].slots);
    impl_->free[slot->size_class].push_back(slot);
}

void SlotPool::prefault_ahead() {
    // About a second's worth in the worst case, which is what there is time for while a model loads.
    constexpr uint64_t kAhead = uint64_t{1} << 30;
    impl_->prefaulter.emplace(impl_->arena.data(), impl_->arena.size(), kAhead);
}

PoolUsage SlotPool::usage() const { return {impl_->count, impl_->arena.size(), impl_->arena.huge_pages()}; }

}  // namespace bmoe::cache
