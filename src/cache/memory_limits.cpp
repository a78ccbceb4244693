#include "cache/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "cache/cgroup_memory.h"

namespace bmoe::cache {

namespace {

uint64_t read_available(const std::string &path) {
    std::ifstream file(path);
    if (!file) throw Error(cat(path, ": cannot be opened, so free memory is unknown; give --cache-mb a number of MiB"));
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name, unit;
        uint64_t kib = 0;
        if (words >> name && name == "MemAvailable:" && words >> kib >> unit && unit == "kB") return kib * 1024;
    }
    throw Error(
        cat(path, ": has no line 'MemAvailable: ... kB', so free memory is unknown; give --cache-mb a number of MiB"));
}

}  // namespace

uint64_t MemoryLimits::free() const { return std::min(available, cgroup_free.value_or(available)); }

uint64_t MemoryLimits::effective() const { return allowed > 0 ? std::min(allowed, free()) : free(); }

std::string MemoryLimits::describe() const {
    if (allowed > 0 && allowed <= free()) {
        return cat(allowed >> 20, " MiB allowed (--ram)");
    }
    if (cgroup_free && *cgroup_free <= available) {
        return cat(*cgroup_free >> 20, " MiB left in the memory cgroup ", cgroup_path, " (v", cgroup_version, ")");
    }
    return cat(available >> 20, " MiB available (MemAvailable)");
}

MemoryLimits read_memory_limits(const std::string &root) {
    MemoryLimits limits;
    limits.available = read_available(root + "/proc/meminfo");
    if (auto cgroup = tightest_memory_cgroup(root)) {
        limits.cgroup_free = cgroup->free;
        limits.cgroup_path = std::move(cgroup->path);
        limits.cgroup_version = cgroup->version;
    }
    return limits;
}

}  // namespace bmoe::cache
