// How much memory this process can really have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bmoe::cache {

struct MemoryLimits {
    uint64_t available = 0;  // bytes: MemAvailable of /proc/meminfo
    std::optional<uint64_t>
        cgroup_free;               // bytes left under the tightest memory cgroup (v1 or v2) of this process, page
                                   // cache that can be reclaimed not counted as used; empty without a limit
    std::string cgroup_path;       // of that cgroup, below its mount point
    int cgroup_version = 0;        // of that cgroup, 1 or 2
    uint64_t allowed = 0;          // bytes that the user allows (--ram); 0: any number
    uint64_t free() const;         // bytes there are: the smaller of the first two
    uint64_t effective() const;    // the smallest of all
    std::string describe() const;  // of effective(), e.g. "6144 MiB left in the memory cgroup /x (v1)"
};

// `root` is prefixed to /proc and /sys/fs/cgroup; tests give a folder with recorded files. Throws bmoe::Error if MemAvailable
// cannot be read.
MemoryLimits read_memory_limits(const std::string &root = "");

}  // namespace bmoe::cache
