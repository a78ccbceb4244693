// Arithmetic of slots: how large they are and how a budget is divided among size classes.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/geometry.h"

namespace bmoe::cache {

// Layers whose experts have the same slice sizes.
struct SizeClass {
    std::vector<uint64_t> slice_room;  // bytes, rounding included
    uint64_t slot_bytes = 0;           // sum of slice_room
    uint64_t experts = 0;              // of all its layers
    uint64_t fewest = 0;               // slots it cannot do without: the largest top-k of its layers
    uint64_t slots = 0;                // what it got
};

class SlotLayout {
  public:
    // Groups the layers; no class has slots yet.
    explicit SlotLayout(const Geometry &geometry);

    // Gives every class the same share of its experts, as far as the budget (bytes) goes; each at least `fewest`. Returns false
    // if the budget is below smallest_bytes().
    bool divide(uint64_t budget);

    // Bytes for the fewest slots, for every expert, and for the slots given by divide(); rounded up to pages.
    uint64_t smallest_bytes() const;
    uint64_t whole_bytes() const;
    uint64_t slot_bytes() const;

    const std::vector<SizeClass> &classes() const { return classes_; }
    const std::vector<uint32_t> &class_of_layers() const { return class_of_layers_; }

  private:
    std::vector<SizeClass> classes_;
    std::vector<uint32_t> class_of_layers_;
};

// Room for a range of `bytes` at any offset, rounded out to blocks at both ends.
uint64_t slice_room(uint64_t bytes, uint32_t block_size);

}  // namespace bmoe::cache
