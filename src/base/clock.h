// Time for measuring: nanoseconds of a clock that never goes back.
#pragma once

#include <chrono>
#include <cstdint>

namespace bmoe {

inline uint64_t now_ns() {
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count());
}

constexpr double seconds_of(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace bmoe
