// Memory for slices that are not cached: read, multiplied once, and free again. Keeps a prompt that touches every expert from
// flooding the cache, and is all there is when the cache is off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/arena.h"

namespace bmoe::backend {

// A fixed set of equal rooms, aligned to 4096 and backed with memory from the start. Not thread-safe: its user locks.
class Staging {
  public:
    // Throws bmoe::Error if there is not enough memory.
    Staging(uint32_t rooms, uint64_t room_bytes);

    static uint64_t bytes(uint32_t rooms, uint64_t room_bytes);

    std::byte *take();  // nullptr if none is free
    void give_back(std::byte *room);

  private:
    cache::Arena arena_;
    std::vector<std::byte *> free_;
};

}  // namespace bmoe::backend
