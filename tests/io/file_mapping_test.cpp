#include "io/file_mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "io/posix_file.h"
#include "tests/io/file_contents.h"
#include "tests/support/scratch.h"

namespace bmoe::io {
namespace {

namespace fs = std::filesystem;

class FileMappingTest : public testing::Test {
  protected:
    std::unique_ptr<RandomAccessFile> open(size_t size) {
        contents_ = test::make_contents(size);
        test::write_file(path_, contents_);
        return open_posix_file(path_, DirectIo::kOff).file;
    }

    bmoe::test::Scratch scratch_;
    std::string path_ = scratch_.file("file");
    std::vector<std::byte> contents_;
};

TEST_F(FileMappingTest, ShowsWhatTheFileHolds) {
    for (const size_t size : {size_t{1}, size_t{4096}, size_t{5'000'001}}) {
        const auto file = open(size);
        const FileMapping mapping(*file);
        ASSERT_EQ(mapping.size(), size);
        EXPECT_EQ(std::memcmp(mapping.data(), contents_.data(), size), 0);
    }
}

TEST_F(FileMappingTest, AnEmptyFileHasNothingToMap) {
    const auto file = open(0);
    const FileMapping mapping(*file);
    EXPECT_EQ(mapping.size(), 0U);
    EXPECT_TRUE(mapping.sweep(0, 0).ok());
}

TEST_F(FileMappingTest, SweepsRangesThatAreNoWholePages) {
    const auto file = open(3'000'003);
    const FileMapping mapping(*file);
    for (const auto &[offset, length] : {std::pair<uint64_t, uint64_t>{0, 3'000'003},
                                         {1, 1},
                                         {4095, 2},
                                         {1'048'575, 1'048'578},
                                         {3'000'002, 1},
                                         {17, 0}}) {
        const ReadStatus status = mapping.sweep(offset, length);
        EXPECT_TRUE(status.ok()) << status.error;
    }
}

TEST_F(FileMappingTest, ClosesWholePagesAndLeavesTheRestAlone) {
    if (::sysconf(_SC_PAGESIZE) != 4096) {
        GTEST_SKIP() << "pages have another size";
    }
    const auto file = open(5 * 4096);
    FileMapping mapping(*file);
    mapping.close(4000, 9000);  // its whole pages are the second and the third
    EXPECT_EQ(std::memcmp(mapping.data(), contents_.data(), 4096), 0);
    EXPECT_EQ(std::memcmp(mapping.data() + 3 * 4096, contents_.data() + 3 * 4096, 2 * 4096), 0);
    EXPECT_DEATH(static_cast<void>(*static_cast<const volatile std::byte *>(mapping.data() + 4096)), "");
    EXPECT_DEATH(static_cast<void>(*static_cast<const volatile std::byte *>(mapping.data() + 3 * 4096 - 1)), "");
    mapping.close(1, 4094);
    EXPECT_EQ(mapping.data()[0], contents_[0]);
}

TEST_F(FileMappingTest, NamesAFileThatBecameUnreadableWhileInUse) {
    const auto file = open(3 << 20);
    const FileMapping mapping(*file);
    constexpr int kPopulateRead = 22;
    if (::madvise(const_cast<std::byte *>(mapping.data()), 4096, kPopulateRead) != 0) {
        GTEST_SKIP() << "before Linux 5.14 the kernel ends the process";
    }
    fs::resize_file(path_, 1 << 20);
    const ReadStatus status = mapping.sweep(0, 3 << 20);
    EXPECT_NE(status.error.find(path_), std::string::npos) << status.error;
}

TEST_F(FileMappingTest, RefusesAFileOfAnotherSizeAndKeepsOneThatIsGone) {
    const auto file = open(100);
    fs::resize_file(path_, 99);
    const auto refusal = [&] {
        try {
            const FileMapping mapping(*file);
        } catch (const Error &error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_NE(refusal().find("changed"), std::string::npos) << refusal();
    fs::resize_file(path_, 100);
    fs::remove(path_);
    EXPECT_EQ(refusal(), "");
}

TEST_F(FileMappingTest, ResidencyIsToldToTheOwnerOfAFile) {
    open(1);
    EXPECT_TRUE(residency_is_told(path_));
    EXPECT_FALSE(residency_is_told(scratch_.file("missing")));
}

}  // namespace
}  // namespace bmoe::io
