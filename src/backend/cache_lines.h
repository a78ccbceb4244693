// Memory for rows that different threads write: rows on cache lines of their own do not slow each other down.
#pragma once

#include <cstddef>
#include <memory>

namespace bmoe::backend {

inline constexpr size_t kCacheLine = 64;

inline size_t whole_cache_lines(size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

// Starts on a cache line. Not thread-safe.
class CacheLines {
  public:
    // Has room for `bytes` from now on. Zeroed if it had to become larger, else it keeps what it holds.
    void reserve(size_t bytes) {
        if (bytes > size_) {
            const size_t size = whole_cache_lines(bytes);
            lines_ = std::make_unique<Line[]>(size / kCacheLine);
            size_ = size;
        }
    }

    std::byte *data() const { return lines_ == nullptr ? nullptr : lines_[0].bytes; }

  private:
    struct alignas(kCacheLine) Line {
        std::byte bytes[kCacheLine];
    };
    std::unique_ptr<Line[]> lines_;
    size_t size_ = 0;  // bytes
};

}  // namespace bmoe::backend
