// Memory for slices that are not cached: read, multiplied once, and free again. Keeps a prompt that touches every expert from
// flooding the cache, and is all there is when the cache is off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bmoe::backend {

// A fixed set of equal rooms in one mapping. Not thread-safe: its user locks.
class Staging {
  public:
    Staging() = default;
    // `room_bytes` is rounded up to 4096. Throws bmoe::Error if the memory cannot be mapped.
    Staging(uint32_t rooms, uint64_t room_bytes);
    ~Staging();
    Staging(Staging &&other) noexcept;
    Staging &operator=(Staging &&other) noexcept;
    Staging(const Staging &) = delete;
    Staging &operator=(const Staging &) = delete;

    std::byte *take();  // nullptr if none is free
    void give_back(std::byte *room);
    uint64_t bytes() const { return bytes_; }

  private:
    std::byte *base_ = nullptr;
    uint64_t bytes_ = 0;
    std::vector<std::byte *> free_;
};

}  // namespace bmoe::backend
