#include "bench/memory_cgroup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace bmoe::bench {

namespace {

struct Hierarchy {
    int version;
    const char *root;
    const char *limit;
    const char *peak;
};
constexpr Hierarchy kHierarchies[] = {
    {1, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
    {2, "/sys/fs/cgroup", "memory.max", "memory.peak"},
};

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

const Hierarchy &memory_hierarchy() {
    for (const Hierarchy &hierarchy : kHierarchies) {
        const char *mark = hierarchy.version == 1 ? hierarchy.limit : "cgroup.controllers";
        if (exists(cat(hierarchy.root, "/", mark))) {
            return hierarchy;
        }
    }
    throw Error("no memory cgroup can be made: neither version of cgroups is mounted below /sys/fs/cgroup");
}

}  // namespace

MemoryCgroup::MemoryCgroup(uint64_t bytes) {
    static std::atomic<int> count{0};
    const Hierarchy &hierarchy = memory_hierarchy();
    version_ = hierarchy.version;
    path_ = cat(hierarchy.root, "/bmoe-bench-", getpid(), "-", count++);
    if (mkdir(path_.c_str(), 0755) != 0) {
        throw Error(cat("no memory cgroup can be made: ", path_, ": ", std::strerror(errno)));
    }
    const std::string file = cat(path_, "/", hierarchy.limit);
    std::ofstream limit;
    if (exists(file)) {
        limit.open(file);
    }
    if (!limit.is_open() || !(limit << bytes << std::flush)) {
        const bool enabled = exists(file);
        rmdir(path_.c_str());
        throw Error(enabled ? cat("no memory cgroup can be made: ", file, " cannot be written")
                            : cat("no memory cgroup can be made: the memory controller is not enabled in ",
                                  hierarchy.root, "/cgroup.subtree_control"));
    }
}

MemoryCgroup::~MemoryCgroup() { rmdir(path_.c_str()); }

std::optional<uint64_t> MemoryCgroup::peak_bytes() const {
    std::ifstream file(cat(path_, "/", kHierarchies[version_ - 1].peak));
    uint64_t bytes = 0;
    return file >> bytes ? std::optional(bytes) : std::nullopt;
}

}  // namespace bmoe::bench
