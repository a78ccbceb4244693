// Sizes for people.
#pragma once

#include <cstdint>

namespace bmoe {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Bytes in MiB, rounded up.
constexpr uint64_t mib_up(uint64_t bytes) { return (bytes + kMiB - 1) / kMiB; }

}  // namespace bmoe
