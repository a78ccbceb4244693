#include "io/bulk_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "fake_files.h"
#include "file_contents.h"
#include "io/aligned_buffer.h"
#include "io/posix_file.h"
#include "tests/support/scratch.h"

namespace bmoe::io {
namespace {

using bmoe::test::Scratch;
using test::FakeFile;
using test::Gate;
using test::make_contents;

constexpr size_t kChunk = 256 << 10;

// Reads to a destination that is `misalignment` bytes after a block boundary; nothing around it may be written.
void expect_read(BulkReader &reader, const RandomAccessFile &file, const std::vector<std::byte> &contents,
                 uint64_t offset, uint64_t length, size_t misalignment) {
    constexpr size_t kGuard = 64;
    const size_t room = length + 2 * 4096 + misalignment;
    const AlignedBuffer buffer(room, 4096);
    std::memset(buffer.data(), 0x77, room);
    std::byte *dst = buffer.data() + 4096 + misalignment;
    const ReadStatus status = reader.read(file, offset, length, dst);
    ASSERT_TRUE(status.ok()) << status.error;
    ASSERT_EQ(std::memcmp(dst, contents.data() + offset, length), 0)
        << "offset " << offset << " length " << length << " misalignment " << misalignment;
    for (size_t i = 1; i <= kGuard; ++i) {
        ASSERT_EQ(dst[-static_cast<std::ptrdiff_t>(i)], std::byte{0x77});
        ASSERT_EQ(dst[length + i - 1], std::byte{0x77});
    }
}

class BulkReaderFileTest : public ::testing::Test {
  protected:
    BulkReaderFileTest() {
        test::write_file(dir_.file("model.gguf"), contents_);
        file_ = open_posix_file(dir_.file("model.gguf"), DirectIo::kVerified).file;
    }

    Scratch dir_;
    std::vector<std::byte> contents_ = make_contents((5 << 20) + 1357);
    std::unique_ptr<RandomAccessFile> file_;
};

TEST_F(BulkReaderFileTest, ReadsTheWholeFile) {
    for (const int lanes : {1, 2, 4}) {
        BulkReader reader(lanes, kChunk);
        expect_read(reader, *file_, contents_, 0, contents_.size(), 0);
        expect_read(reader, *file_, contents_, 0, contents_.size(), 1);
    }
}

TEST_F(BulkReaderFileTest, ReadsRandomRangesToAnyAlignment) {
    std::mt19937_64 random(5);
    BulkReader reader(3, kChunk);
    for (int i = 0; i < 200; ++i) {
        const uint64_t offset = random() % contents_.size();
        const uint64_t longest = std::min<uint64_t>(contents_.size() - offset, i % 2 ? 3 << 20 : 9000);
        // Every third destination is congruent to the file offset, so that pieces are read in place.
        const size_t misalignment = i % 3 == 0 ? offset % 4096 : random() % 4096;
        expect_read(reader, *file_, contents_, offset, 1 + random() % longest, misalignment);
        if (HasFatalFailure()) return;
    }
}

TEST_F(BulkReaderFileTest, ReadsThroughThePageCacheToo) {
    const auto buffered = open_posix_file(dir_.file("model.gguf"), DirectIo::kOff).file;
    BulkReader reader(4, kChunk);
    expect_read(reader, *buffered, contents_, 4097, (5 << 20) - 5000, 31);
}

TEST_F(BulkReaderFileTest, ReadOfNoBytesIsOk) {
    BulkReader reader(2, kChunk);
    EXPECT_TRUE(reader.read(*file_, 12, 0, nullptr).ok());
}

TEST_F(BulkReaderFileTest, RefusesARangeBeyondTheEnd) {
    BulkReader reader(2, kChunk);
    const std::string error = reader.read(*file_, 1000, contents_.size(), nullptr).error;
    EXPECT_NE(error.find("beyond the end of the file"), std::string::npos) << error;
    EXPECT_FALSE(reader.read(*file_, UINT64_MAX, 2, nullptr).ok());
}

TEST(BulkReaderTest, ReadsInPlaceWhereTheDestinationFits) {
    const auto contents = make_contents(2 << 20);
    std::mutex mutex;
    std::vector<std::byte *> destinations;
    const FakeFile file(contents, [&](uint64_t, uint64_t, std::byte *dst) {
        const std::lock_guard lock(mutex);
        destinations.push_back(dst);
        return ReadStatus{};
    });
    const AlignedBuffer buffer(contents.size(), 4096);
    BulkReader reader(2, kChunk);
    ASSERT_TRUE(reader.read(file, 0, contents.size(), buffer.data()).ok());
    EXPECT_EQ(destinations.size(), contents.size() / kChunk);
    for (const std::byte *dst : destinations) {
        EXPECT_TRUE(dst >= buffer.data() && dst < buffer.data() + contents.size());
    }
}

TEST(BulkReaderTest, FitsItsBuffersToLargeBlocks) {
    const auto contents = make_contents(3 << 20);
    const FakeFile file(
        contents,
        [](uint64_t, uint64_t, std::byte *dst) {
            const bool is_aligned = reinterpret_cast<uintptr_t>(dst) % (64 << 10) == 0;
            return ReadStatus{is_aligned ? "" : "not aligned"};
        },
        64 << 10);
    BulkReader reader(3, 12 << 10);
    expect_read(reader, file, contents, 12345, 2 << 20, 7);
}

TEST(BulkReaderTest, ReturnsTheFirstErrorByOffset) {
    const auto contents = make_contents(2 << 20);
    // The piece with the lower offset fails only after the one with the higher offset has.
    Gate later_failed;
    const FakeFile file(contents, [&](uint64_t offset, uint64_t length, std::byte *) {
        const auto covers = [&](uint64_t at) { return at >= offset && at - offset < length; };
        if (covers(kChunk)) {
            later_failed.pass();
            // Time for the later error to be recorded; the result is the same without it.
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            return ReadStatus{"first"};
        }
        if (covers(3 * kChunk)) {
            later_failed.open();
            return ReadStatus{"later"};
        }
        return ReadStatus{};
    });
    BulkReader reader(2, kChunk);
    std::vector<std::byte> dst(contents.size());
    EXPECT_EQ(reader.read(file, 0, contents.size(), dst.data()).error, "first");
}

TEST(BulkReaderTest, ReportsExceptionsAndWorksOn) {
    const auto contents = make_contents(2 << 20);
    bool is_faulty = true;
    const FakeFile file(contents, [&](uint64_t offset, uint64_t, std::byte *) {
        if (is_faulty && offset >= kChunk) throw std::runtime_error("thrown");
        return ReadStatus{};
    });
    BulkReader reader(4, kChunk);
    std::vector<std::byte> dst(contents.size());
    const std::string error = reader.read(file, 0, contents.size(), dst.data()).error;
    EXPECT_NE(error.find("at offset 262144: thrown"), std::string::npos) << error;
    is_faulty = false;
    expect_read(reader, file, contents, 0, contents.size(), 3);
}

TEST(BulkReaderTest, RefusesBadSettings) {
    EXPECT_THROW(BulkReader(0), Error);
    EXPECT_THROW(BulkReader(65), Error);
    EXPECT_THROW(BulkReader(1, 0), Error);
    EXPECT_THROW(BulkReader(1, 1000), Error);
}

}  // namespace
}  // namespace bmoe::io
