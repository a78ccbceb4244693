// A whole process whose reads are faulted by the preloaded shim.
#include <gtest/gtest.h>

#include "child_process.h"
#include "file_contents.h"
#include "fnv.h"
#include "tests/support/scratch.h"

namespace bmoe::io {
namespace {

using bmoe::test::Scratch;
using test::ChildProcess;
using test::make_contents;

// Opening compares reads at the start, the quarters and the end of the file; this offset is not among them.
constexpr uint64_t kUnverified = 100000;

class FaultTest : public ::testing::Test {
  protected:
    FaultTest() { test::write_file(path_, contents_); }

    // The probe's output, line by line.
    std::vector<std::string> probe(ChildProcess::Environment environment, const std::string &mode,
                                   const std::vector<uint64_t> &ranges) const {
        std::vector<std::string> command = {BMOE_READ_PROBE, path_, mode};
        for (const uint64_t number : ranges) command.push_back(std::to_string(number));
        environment.emplace_back("LD_PRELOAD", BMOE_FAULT_SHIM);
        environment.emplace_back("BMOE_FAULT_PATH", dir_.path().filename().string());
        // AddressSanitizer wants to be the first library; the shim is, and calls on to it.
        const char *asan = ::getenv("ASAN_OPTIONS");
        environment.emplace_back("ASAN_OPTIONS", std::string(asan ? asan : "") + ":verify_asan_link_order=0");
        ChildProcess child(command, environment);
        std::vector<std::string> lines;
        for (std::string line; child.read_line(line);) lines.push_back(line);
        EXPECT_EQ(child.wait(), 0);
        lines.resize(std::max<size_t>(lines.size(), 3));
        return lines;
    }

    std::string sum(uint64_t offset, uint64_t length) const {
        return "sum " + std::to_string(test::fnv1a(contents_.data() + offset, length));
    }

    bool has_direct_io() const {
        return probe({{"BMOE_FAULT_KIND", "slow"}, {"BMOE_FAULT_COUNT", "0"}}, "direct", {})[0] == "direct 1";
    }

    Scratch dir_;
    std::string path_ = dir_.file("model.gguf");
    std::vector<std::byte> contents_ = make_contents((1 << 20) + 77);
};

#define SKIP_WITHOUT_DIRECT_IO() \
    if (!has_direct_io()) GTEST_SKIP() << "the file system of the working directory has no direct I/O"

TEST_F(FaultTest, ReportsAnIoError) {
    for (const char *mode : {"direct", "buffered"}) {
        const auto lines = probe({{"BMOE_FAULT_KIND", "eio"},
                                  {"BMOE_FAULT_OFFSET", std::to_string(kUnverified)},
                                  {"BMOE_FAULT_LENGTH", "10"}},
                                 mode, {kUnverified - 50, 100, 0, 4096});
        ASSERT_EQ(lines.size(), 4u);
        EXPECT_EQ(lines[2], "error " + path_ +
                                ": cannot read 100 bytes at offset 99950: Input/output error; "
                                "check the disk and the kernel log");
        EXPECT_EQ(lines[3], sum(0, 4096)) << "other ranges are read";
    }
}

TEST_F(FaultTest, ReportsAnIoErrorAtOpening) {
    const auto lines = probe({{"BMOE_FAULT_KIND", "eio"}, {"BMOE_FAULT_LENGTH", "1"}}, "direct", {0, 1});
    EXPECT_EQ(lines[0], "throw " + path_ +
                            ": cannot read 16384 bytes at offset 0: Input/output error; "
                            "check the disk and the kernel log");
}

TEST_F(FaultTest, RepeatsInterruptedReads) {
    for (const char *mode : {"direct", "buffered"}) {
        const auto lines = probe({{"BMOE_FAULT_KIND", "eintr"}}, mode, {5, 300000, kUnverified, 1});
        ASSERT_EQ(lines.size(), 4u);
        EXPECT_EQ(lines[1], "note ");
        EXPECT_EQ(lines[2], sum(5, 300000));
        EXPECT_EQ(lines[3], sum(kUnverified, 1));
    }
}

TEST_F(FaultTest, ContinuesShortReads) {
    SKIP_WITHOUT_DIRECT_IO();
    const uint64_t tail = contents_.size() - 5000;
    for (const char *mode : {"direct", "buffered"}) {
        const auto lines = probe({{"BMOE_FAULT_KIND", "short"}}, mode, {5, 300000, 4096, 4096, tail, 5000});
        ASSERT_EQ(lines.size(), 5u);
        EXPECT_EQ(lines[0], std::string("direct ") + (std::string(mode) == "direct" ? "1" : "0"));
        EXPECT_EQ(lines[1], "note ");
        EXPECT_EQ(lines[2], sum(5, 300000));
        EXPECT_EQ(lines[3], sum(4096, 4096));
        EXPECT_EQ(lines[4], sum(tail, 5000));
    }
}

TEST_F(FaultTest, FallsBackWhereDirectReadsAreRefused) {
    SKIP_WITHOUT_DIRECT_IO();
    const auto lines = probe({{"BMOE_FAULT_KIND", "refuse"}}, "direct", {5, 300000});
    EXPECT_EQ(lines[0], "direct 0");
    EXPECT_EQ(lines[1], "note " + path_ +
                            ": direct reads fail (cannot read 16384 bytes at offset 0: Invalid argument); "
                            "using buffered I/O");
    EXPECT_EQ(lines[2], sum(5, 300000));
}

TEST_F(FaultTest, FallsBackWhereDirectReadsLie) {
    SKIP_WITHOUT_DIRECT_IO();
    // At the start, in the middle, and in the last, incomplete block only.
    for (const uint64_t offset : {uint64_t{0}, uint64_t{525000}, uint64_t{contents_.size() - 1}}) {
        const auto lines = probe({{"BMOE_FAULT_KIND", "lie"}, {"BMOE_FAULT_OFFSET", std::to_string(offset)}}, "direct",
                                 {0, contents_.size()});
        EXPECT_EQ(lines[0], "direct 0");
        EXPECT_EQ(lines[1], "note " + path_ + ": direct reads differ from buffered reads at offset " +
                                std::to_string(offset) + " (a FUSE mount?); using buffered I/O");
        EXPECT_EQ(lines[2], sum(0, contents_.size()));
    }
}

TEST_F(FaultTest, WaitsForSlowReads) {
    const auto lines = probe({{"BMOE_FAULT_KIND", "slow"}, {"BMOE_FAULT_DELAY_MS", "5"}}, "direct", {5, 300000});
    EXPECT_EQ(lines[2], sum(5, 300000));
}

// The shim itself: faults begin and end where they are told to.
TEST_F(FaultTest, CountsFaults) {
    const auto lines = probe({{"BMOE_FAULT_KIND", "eio"}, {"BMOE_FAULT_AFTER", "1"}, {"BMOE_FAULT_COUNT", "1"}},
                             "buffered", {0, 10, 0, 10, 0, 10});
    ASSERT_EQ(lines.size(), 5u);
    EXPECT_EQ(lines[2], sum(0, 10));
    EXPECT_EQ(lines[3].substr(0, 6), "error ");
    EXPECT_EQ(lines[4], sum(0, 10));
}

}  // namespace
}  // namespace bmoe::io
