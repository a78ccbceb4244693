// Memory of this process and of the machine, now.
#pragma once

#include <cstdint>

namespace bmoe::telemetry {

// Bytes; -1 where it cannot be measured.
struct MemoryUsage {
    int64_t rss = -1;        // resident set of the process
    int64_t swapped = -1;    // of the process, in swap
    int64_t available = -1;  // MemAvailable: what the machine could give without swapping

    static MemoryUsage now();
};

}  // namespace bmoe::telemetry
