// Memory limits of the control groups that this process is in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bmoe::cache {

struct CgroupMemory {
    uint64_t free = 0;  // bytes below the limit, page cache that can be reclaimed counted as free
    std::string path;   // below the mount point, "/" for the group that is mounted there
    int version = 0;    // 1 or 2
};

// The limited memory cgroup that leaves the least: limits hold for a group and all groups below it, so every one from this
// process up to the root counts, in both hierarchies. Empty without a limit, or where cgroups are not mounted. `root` is
// prefixed to all paths.
std::optional<CgroupMemory> tightest_memory_cgroup(const std::string &root);

}  // namespace bmoe::cache
