// A checksum that fits on a line of text.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bmoe::io::test {

// FNV-1a, 64 bits.
inline uint64_t fnv1a(const std::byte *bytes, size_t length) {
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < length; ++i) {
        hash ^= static_cast<uint64_t>(bytes[i]);
        hash *= 1099511628211u;
    }
    return hash;
}

}  // namespace bmoe::io::test
