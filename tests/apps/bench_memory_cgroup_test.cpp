#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "bench/child.h"
#include "bench/memory_cgroup.h"

namespace bmoe::bench {
namespace {

constexpr uint64_t kLimit = uint64_t{64} << 20;

// The reason where none can be made.
std::unique_ptr<MemoryCgroup> make(std::string &reason) {
    try {
        return std::make_unique<MemoryCgroup>(kLimit);
    } catch (const Error &error) {
        reason = error.what();
        return nullptr;
    }
}

TEST(MemoryCgroup, LimitsAChildAndIsGoneAfterwards) {
    std::string reason;
    auto cgroup = make(reason);
    if (cgroup == nullptr) {
        GTEST_SKIP() << reason;
    }
    const InterruptScope interrupts;
    const std::string path = cgroup->path();
    const auto shell = [&](const std::string &script) {
        return run_child({"/bin/sh", "-c", script}, cgroup->procs_file(), interrupts);
    };
    const ChildOutput member = shell("cat /proc/self/cgroup");
    EXPECT_NE(member.out.find(path.substr(path.rfind('/'))), std::string::npos) << member.out << member.err;
    EXPECT_EQ(shell("head -c 8000000 /dev/zero | tail -n 1 | wc -c").out, "8000000\n");
    // tail must hold the whole line: it is killed, or swapped out.
    shell("head -c 150000000 /dev/zero | tail -n 1 | wc -c");
    if (const auto peak = cgroup->peak_bytes()) {
        EXPECT_GT(*peak, kLimit / 2);
        EXPECT_LE(*peak, kLimit);
    }
    cgroup.reset();
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MemoryCgroup, GroupsOfOneProcessAreDifferent) {
    std::string reason;
    const auto first = make(reason);
    if (first == nullptr) {
        GTEST_SKIP() << reason;
    }
    const auto second = make(reason);
    ASSERT_NE(second, nullptr) << reason;
    EXPECT_NE(first->path(), second->path());
}

TEST(MemoryCgroup, SaysWhyThereIsNone) {
    if (geteuid() == 0) {
        GTEST_SKIP() << "root may make cgroups";
    }
    std::string reason;
    if (make(reason) == nullptr) {
        EXPECT_NE(reason.find("no memory cgroup can be made"), std::string::npos) << reason;
    }
}

}  // namespace
}  // namespace bmoe::bench
