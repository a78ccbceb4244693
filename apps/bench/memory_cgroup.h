// A memory cgroup (v1 or v2) for one run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bmoe::bench {

class MemoryCgroup {
  public:
    // Makes a group limited to `bytes` below the root of the memory hierarchy. Throws bmoe::Error with the reason where that is
    // not possible: no root, no hierarchy, controller not enabled.
    explicit MemoryCgroup(uint64_t bytes);
    ~MemoryCgroup();  // removes it; its processes must have ended
    MemoryCgroup(const MemoryCgroup &) = delete;
    MemoryCgroup &operator=(const MemoryCgroup &) = delete;

    // A process that writes "0" to this file moves itself into the group.
    std::string procs_file() const { return path_ + "/cgroup.procs"; }
    const std::string &path() const { return path_; }
    int version() const { return version_; }
    std::optional<uint64_t> peak_bytes() const;  // page cache included; empty where the kernel does not tell

  private:
    std::string path_;
    int version_ = 0;
};

}  // namespace bmoe::bench
