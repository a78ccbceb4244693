// Memory for cached experts: permanently mapped slots, overwritten in place, never unmapped while the pool lives.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/expert_id.h"
#include "cache/geometry.h"

namespace bmoe::cache {

enum class SliceState : uint8_t { kEmpty, kReading, kReady, kFailed };

// Room for one slice of one expert. A direct read lands in place: `data` = `room` + the file offset's distance to its block.
struct Slice {
    std::byte *room = nullptr;  // block-aligned, fixed for the life of the pool
    const std::byte *data = nullptr;
    std::atomic<SliceState> state{SliceState::kEmpty};
};

struct Slot {
    ExpertId id;
    uint32_t size_class = 0;
    std::vector<Slice> slices;  // one per projection; never resized
};

// All slices are there.
inline bool is_whole(const Slot &slot) {
    return std::all_of(slot.slices.begin(), slot.slices.end(), [](const Slice &slice) {
        return slice.state.load(std::memory_order_acquire) == SliceState::kReady;
    });
}

// Budget a pool is given and what became of it.
struct PoolUsage {
    uint64_t slots = 0;
    uint64_t mapped_bytes = 0;  // what the slots occupy, rounding included: this is what is held against the budget
    bool huge_pages = false;    // the kernel was asked for huge pages and took the request
};

// Experts of equal slice sizes form a size class. The budget is divided among the classes in proportion to the bytes of
// their experts. Slots are backed by memory when they are first written, or before by prefault_ahead().
class SlotPool {
  public:
    // Budget in bytes; gives every class at least its layers' top-k slots or throws bmoe::Error with the budget that would do.
    SlotPool(const Geometry &geometry, uint64_t budget);
    ~SlotPool();
    SlotPool(const SlotPool &) = delete;
    SlotPool &operator=(const SlotPool &) = delete;

    // The smallest budget the constructor accepts, in bytes, and the one that holds every expert.
    static uint64_t minimum_budget(const Geometry &geometry);
    static uint64_t whole_budget(const Geometry &geometry);

    // Throws as the constructor does.
    static void check_budget(const Geometry &geometry, uint64_t budget);

    uint32_t classes() const;
    uint32_t class_of(uint16_t layer) const;
    std::span<const uint32_t> class_of_layers() const;
    Slot *take_free(uint32_t size_class);  // nullptr if none is free
    uint64_t free_slots(uint32_t size_class) const;
    uint64_t slots(uint32_t size_class) const;
    void give_back(Slot *slot);

    // Backs slots with memory a little ahead of those that are taken, on a thread of its own, from now on: a direct read into
    // a page that was never touched takes the fault inside the kernel, zeroing included. Slots may be used meanwhile. See
    // Prefaulter.
    void prefault_ahead();

    PoolUsage usage() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace bmoe::cache
