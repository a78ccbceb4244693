#include "cache/memory_limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/error.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

// /proc and /sys/fs/cgroup as files in a folder, as a kernel would show them.
class MemoryLimitsTest : public ::testing::Test {
  protected:
    MemoryLimitsTest() {
        root_.write("proc/meminfo",
                    "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n");
    }

    void mounts(const std::string &lines) {
        root_.write("proc/self/mountinfo", "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" + lines);
    }
    void groups(const std::string &lines) { root_.write("proc/self/cgroup", lines); }

    // A group of version 1: the limit, use and total page cache in MiB.
    void v1(const std::string &folder, const std::string &limit, uint64_t used, uint64_t inactive = 0,
            uint64_t active = 0) {
        root_.write(folder + "/memory.limit_in_bytes", limit + "\n");
        root_.write(folder + "/memory.usage_in_bytes", std::to_string(used * kMiB) + "\n");
        root_.write(folder + "/memory.stat",
                    "cache 5\ninactive_file 7\nactive_file 7\ntotal_cache 5\ntotal_inactive_file " +
                        std::to_string(inactive * kMiB) + "\ntotal_active_file " + std::to_string(active * kMiB) +
                        "\n");
    }

    void v2(const std::string &folder, const std::string &limit, uint64_t used, uint64_t inactive = 0,
            uint64_t slab = 0) {
        root_.write(folder + "/memory.max", limit + "\n");
        root_.write(folder + "/memory.current", std::to_string(used * kMiB) + "\n");
        root_.write(folder + "/memory.stat", "anon 5\nfile 12345\ninactive_file " + std::to_string(inactive * kMiB) +
                                                 "\nactive_file 0\nslab_reclaimable " + std::to_string(slab * kMiB) +
                                                 "\n");
    }

    MemoryLimits read() const { return read_memory_limits(root_.path()); }

    static std::string mib(uint64_t n) { return std::to_string(n * kMiB); }

    test::ScratchFolder root_;
};

const char *const kV1Mounts =
    "30 22 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "31 30 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "34 30 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "40 30 0:37 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
const char *const kV2Mount = "25 22 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kV1 = "sys/fs/cgroup/memory";
const std::string kV2 = "sys/fs/cgroup";
const char *const kV1Unlimited = "9223372036854771712";

TEST_F(MemoryLimitsTest, WithoutCgroupsMemAvailableCounts) {
    const MemoryLimits limits = read();
    EXPECT_EQ(limits.available, 8192 * kMiB);
    EXPECT_FALSE(limits.cgroup_free);
    EXPECT_EQ(limits.effective(), 8192 * kMiB);
    EXPECT_EQ(limits.describe(), "8192 MiB available (MemAvailable)");
}

TEST_F(MemoryLimitsTest, WhatTheUserAllowsIsALimitToo) {
    MemoryLimits limits = read();
    limits.allowed = 6144 * kMiB;
    EXPECT_EQ(limits.effective(), 6144 * kMiB);
    EXPECT_EQ(limits.free(), 8192 * kMiB);
    EXPECT_EQ(limits.describe(), "6144 MiB allowed (--ram)");
    limits.allowed = 9000 * kMiB;  // more than there is
    EXPECT_EQ(limits.effective(), 8192 * kMiB);
    EXPECT_EQ(limits.describe(), "8192 MiB available (MemAvailable)");
}

TEST_F(MemoryLimitsTest, ReadsTheLimitOfAV1GroupInAHybridMount) {
    mounts(kV1Mounts);
    groups("9:name=systemd:/\n4:memory:/x\n1:cpu:/\n0::/\n");
    v1(kV1, kV1Unlimited, 9000);
    v1(kV1 + "/x", mib(6144), 1000, 700, 100);
    const MemoryLimits limits = read();
    EXPECT_EQ(limits.cgroup_free, (6144 - 200) * kMiB) << "page cache counts as free";
    EXPECT_EQ(limits.effective(), 5944 * kMiB);
    EXPECT_EQ(limits.describe(), "5944 MiB left in the memory cgroup /x (v1)");
}

TEST_F(MemoryLimitsTest, UnlimitedV1GroupsAreNoLimit) {
    mounts(kV1Mounts);
    groups("4:memory:/x\n0::/\n");
    v1(kV1, kV1Unlimited, 9000);
    v1(kV1 + "/x", kV1Unlimited, 1000);
    EXPECT_FALSE(read().cgroup_free);
}

TEST_F(MemoryLimitsTest, TheTightestGroupOnThePathCounts) {
    mounts(kV1Mounts);
    groups("4:memory,hugetlb:/a/b/c\n");
    v1(kV1, kV1Unlimited, 0);
    v1(kV1 + "/a", mib(4000), 3000);  // 1000 left, used by others
    v1(kV1 + "/a/b", mib(2000), 500);
    v1(kV1 + "/a/b/c", kV1Unlimited, 500);
    const MemoryLimits limits = read();
    EXPECT_EQ(limits.cgroup_free, 1000 * kMiB);
    EXPECT_EQ(limits.cgroup_path, "/a");
    EXPECT_EQ(limits.cgroup_version, 1);
}

TEST_F(MemoryLimitsTest, AV1GroupThatLeavesGroupsBelowAloneDoesNotCount) {
    mounts(kV1Mounts);
    groups("4:memory:/a/b\n");
    v1(kV1 + "/a", mib(100), 90);
    root_.write(kV1 + "/a/memory.use_hierarchy", "0\n");
    v1(kV1 + "/a/b", mib(2000), 500);
    root_.write(kV1 + "/a/b/memory.use_hierarchy", "0\n");
    EXPECT_EQ(read().cgroup_free, 1500 * kMiB);
}

TEST_F(MemoryLimitsTest, ReadsTheLimitOfAV2Group) {
    mounts(kV2Mount);
    groups("0::/user.slice/run-1.scope\n");
    v2(kV2 + "/user.slice", "max", 3000);
    v2(kV2 + "/user.slice/run-1.scope", mib(3000), 900, 300, 100);
    const MemoryLimits limits = read();
    EXPECT_EQ(limits.cgroup_free, 2500 * kMiB);
    EXPECT_EQ(limits.describe(), "2500 MiB left in the memory cgroup /user.slice/run-1.scope (v2)");
}

TEST_F(MemoryLimitsTest, ReadsTheLimitOfAGroupAboveInV2) {
    mounts(kV2Mount);
    groups("0::/a/b\n");
    v2(kV2 + "/a", mib(2000), 500);
    v2(kV2 + "/a/b", "max", 100);
    EXPECT_EQ(read().cgroup_free, 1500 * kMiB);
    EXPECT_EQ(read().cgroup_path, "/a");
}

TEST_F(MemoryLimitsTest, TheThrottlingLimitOfV2Counts) {
    mounts(kV2Mount);
    groups("0::/a\n");
    v2(kV2 + "/a", mib(2000), 500);
    root_.write(kV2 + "/a/memory.high", mib(1600));
    EXPECT_EQ(read().cgroup_free, 1100 * kMiB);
    root_.write(kV2 + "/a/memory.high", "max\n");
    EXPECT_EQ(read().cgroup_free, 1500 * kMiB);
}

TEST_F(MemoryLimitsTest, AContainersOwnGroupIsTheMountItself) {
    // The container sees only its own group, mounted at the usual place, but is told its name outside.
    mounts("40 30 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    groups("4:memory:/docker/abc\n");
    v1(kV1, mib(1024), 24);
    EXPECT_EQ(read().cgroup_free, 1000 * kMiB);
    EXPECT_EQ(read().cgroup_path, "/");

    groups("4:memory:/docker/abc/inner\n");
    v1(kV1 + "/inner", mib(500), 100);
    EXPECT_EQ(read().cgroup_free, 400 * kMiB);

    groups("4:memory:/somewhere/else\n");
    EXPECT_EQ(read().cgroup_free, 1000 * kMiB);
}

TEST_F(MemoryLimitsTest, AGroupThatCannotBeSeenLeavesThoseAbove) {
    mounts(kV2Mount);
    groups("0::/../../outside\n");
    v2(kV2, mib(700), 100);
    EXPECT_EQ(read().cgroup_free, 600 * kMiB);
    groups("0::/not/mounted/here\n");
    EXPECT_EQ(read().cgroup_free, 600 * kMiB);
}

TEST_F(MemoryLimitsTest, FindsMountPointsWithBlanksAndOddPlaces) {
    mounts("40 30 0:31 / /dev/mem\\040cg rw - cgroup none rw,memory\n");
    groups("3:memory:/apps:uid_1\n");
    v1("dev/mem cg/apps:uid_1", mib(900), 100);
    EXPECT_EQ(read().cgroup_free, 800 * kMiB);
    EXPECT_EQ(read().cgroup_path, "/apps:uid_1");
}

TEST_F(MemoryLimitsTest, AnOverdrawnGroupHasNothingLeft) {
    mounts(kV2Mount);
    groups("0::/a\n");
    v2(kV2 + "/a", mib(100), 150);
    EXPECT_EQ(read().cgroup_free, 0u);
    EXPECT_EQ(read().effective(), 0u);
}

TEST_F(MemoryLimitsTest, ALimitAboveWhatIsAvailableDoesNotBind) {
    mounts(kV2Mount);
    groups("0::/a\n");
    v2(kV2 + "/a", mib(20'000), 0);
    EXPECT_EQ(read().effective(), 8192 * kMiB);
    EXPECT_EQ(read().describe(), "8192 MiB available (MemAvailable)");
}

TEST_F(MemoryLimitsTest, WithoutMemAvailableThereIsAnErrorWithTheFile) {
    root_.write("proc/meminfo", "MemTotal: 5 kB\n");
    try {
        read();
        FAIL() << "free memory was made up";
    } catch (const Error &error) {
        EXPECT_NE(std::string(error.what()).find("/proc/meminfo"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("--cache-mb"), std::string::npos) << error.what();
    }
    EXPECT_THROW(read_memory_limits(root_.path() + "/none"), Error);
}

TEST(MemoryLimits, ThisMachineHasMemory) {
    const MemoryLimits limits = read_memory_limits();
    EXPECT_GT(limits.available, 16 * kMiB);
    EXPECT_LE(limits.effective(), limits.available);
    EXPECT_FALSE(limits.describe().empty());
}

// A memory cgroup of the running kernel.
class RealCgroup {
  public:
    explicit RealCgroup(uint64_t limit) {
        const std::string name = "/bmoe_test_" + std::to_string(getpid());
        for (const auto &[parent, file] :
             {std::pair<std::string, std::string>{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
              std::pair<std::string, std::string>{"/sys/fs/cgroup", "memory.max"}}) {
            if (mkdir((parent + name).c_str(), 0755) != 0) continue;
            path_ = parent + name;
            if (write(file, std::to_string(limit)) && access((path_ + "/cgroup.procs").c_str(), W_OK) == 0) return;
            rmdir(path_.c_str());
            path_.clear();
        }
    }
    ~RealCgroup() {
        if (!path_.empty()) rmdir(path_.c_str());
    }
    RealCgroup(const RealCgroup &) = delete;
    RealCgroup &operator=(const RealCgroup &) = delete;

    bool made() const { return !path_.empty(); }
    bool enter() const { return write("cgroup.procs", std::to_string(getpid())); }

  private:
    bool write(const std::string &file, const std::string &text) const {
        const int fd = open((path_ + "/" + file).c_str(), O_WRONLY);
        if (fd < 0) return false;
        const bool done = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
        close(fd);
        return done;
    }

    std::string path_;
};

TEST(MemoryLimits, SeesARealCgroupAndWhatIsUsedInIt) {
    constexpr uint64_t kLimit = 200 * kMiB, kUsed = 50 * kMiB;
    const RealCgroup cgroup(kLimit);
    if (!cgroup.made()) GTEST_SKIP() << "no memory cgroup can be made here: needs root and a writable hierarchy";

    // The child answers with what it saw before and after using memory.
    int answer[2];
    ASSERT_EQ(pipe(answer), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        uint64_t seen[2] = {0, 0};
        if (cgroup.enter()) {
            seen[0] = read_memory_limits().cgroup_free.value_or(0);
            void *memory = mmap(nullptr, kUsed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory != MAP_FAILED) std::memset(memory, 1, kUsed);
            seen[1] = read_memory_limits().cgroup_free.value_or(0);
        }
        const bool told = write(answer[1], seen, sizeof(seen)) == static_cast<ssize_t>(sizeof(seen));
        _exit(told ? 0 : 1);
    }
    close(answer[1]);
    uint64_t seen[2] = {0, 0};
    EXPECT_EQ(read(answer[0], seen, sizeof(seen)), static_cast<ssize_t>(sizeof(seen)));
    close(answer[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_GT(seen[0], 180 * kMiB);
    EXPECT_LE(seen[0], kLimit);
    EXPECT_NEAR(static_cast<double>(seen[0]) - static_cast<double>(seen[1]), static_cast<double>(kUsed), 10.0 * kMiB);
}

}  // namespace
}  // namespace bmoe::cache
