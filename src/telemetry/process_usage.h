// What the operating system says this process has used.
#pragma once

#include <cstdint>

namespace bmoe::telemetry {

struct ProcessUsage {
    double user_seconds = 0;
    double system_seconds = 0;
    int64_t major_faults = 0;
    int64_t minor_faults = 0;

    static ProcessUsage now();
    ProcessUsage since(const ProcessUsage &earlier) const;
};

// Resident set of the process, in bytes, and its peak; -1 if it cannot be measured.
int64_t rss_bytes();
int64_t peak_rss_bytes();

}  // namespace bmoe::telemetry
