// Real files, read directly and through the page cache.
#include "io/posix_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "few_descriptors.h"
#include "file_contents.h"
#include "io/aligned_buffer.h"
#include "tests/support/scratch.h"

namespace bmoe::io {
namespace {

using bmoe::test::Scratch;
using test::make_contents;
using test::write_file;

constexpr long kTmpfsMagic = 0x01021994;

// What open_posix_file throws.
std::string opening_error(const std::string &path, DirectIo mode = DirectIo::kVerified) {
    try {
        open_posix_file(path, mode);
    } catch (const Error &error) {
        return error.what();
    }
    return "";
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// Reads a range and compares it with `contents`; also that nothing outside of the span's room was written.
void expect_range(const RandomAccessFile &file, const std::vector<std::byte> &contents, uint64_t offset,
                  uint64_t length) {
    const Span span = file.span(offset, length);
    const uint64_t block = file.block_size();
    const AlignedBuffer buffer(span.length + 2 * block, block);
    std::fill_n(buffer.data(), span.length + 2 * block, std::byte{0x77});
    std::byte *dst = buffer.data() + block;
    const ReadStatus status = file.read(offset, length, dst);
    ASSERT_TRUE(status.ok()) << status.error;
    ASSERT_EQ(std::memcmp(dst + span.lead, contents.data() + offset, length), 0)
        << "offset " << offset << " length " << length;
    const auto is_untouched = [](std::byte byte) { return byte == std::byte{0x77}; };
    ASSERT_TRUE(std::all_of(buffer.data(), dst, is_untouched)) << "written before the room at offset " << offset;
    ASSERT_TRUE(std::all_of(dst + span.length, dst + span.length + block, is_untouched))
        << "written after the room at offset " << offset;
}

std::string reading_error(const RandomAccessFile &file, uint64_t offset, uint64_t length) {
    const AlignedBuffer buffer(file.span(offset, length).length, file.block_size());
    return file.read(offset, length, buffer.data()).error;
}

// Moves the modification time back, so that the next write changes it however coarse the clock is.
void age(const std::string &path) {
    const timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

class PosixFileTest : public ::testing::TestWithParam<DirectIo> {
  protected:
    // Skips the test where the disk has no direct I/O.
    std::unique_ptr<RandomAccessFile> open(const std::string &path) {
        OpenedFile opened = open_posix_file(path, GetParam());
        if (GetParam() == DirectIo::kOff) {
            EXPECT_FALSE(opened.file->is_direct());
            EXPECT_EQ(opened.note, "");
        } else {
            EXPECT_EQ(opened.file->is_direct(), opened.note.empty()) << opened.note;
        }
        return std::move(opened.file);
    }

    std::unique_ptr<RandomAccessFile> open_contents(const std::vector<std::byte> &contents) {
        write_file(path_, contents);
        age(path_);
        return open(path_);
    }

    Scratch dir_;
    std::string path_ = dir_.file("model.gguf");
};

#define SKIP_WITHOUT_DIRECT_IO(file)                                                  \
    if (GetParam() == DirectIo::kVerified && !(file).is_direct()) {                   \
        GTEST_SKIP() << "the file system of the working directory has no direct I/O"; \
    }

TEST_P(PosixFileTest, DescribesTheFile) {
    const auto file = open_contents(make_contents(10000));
    EXPECT_EQ(file->path(), path_);
    EXPECT_EQ(file->size(), 10000u);
    EXPECT_GE(file->block_size(), 4096u);
    EXPECT_EQ(file->block_size() & (file->block_size() - 1), 0u);
}

TEST_P(PosixFileTest, ReadsEveryOffsetModuloTheBlock) {
    const auto contents = make_contents(7 * 4096 + 1234);
    const auto file = open_contents(contents);
    SKIP_WITHOUT_DIRECT_IO(*file);
    std::mt19937_64 random(2);
    for (uint64_t start = 0; start < 4096; ++start) {
        const uint64_t offset = start + 4096 * (random() % 3);
        const uint64_t length = 1 + random() % (contents.size() - offset);
        expect_range(*file, contents, offset, length);
        if (HasFatalFailure()) return;
    }
}

TEST_P(PosixFileTest, ReadsEveryLengthModuloTheBlock) {
    const auto contents = make_contents(7 * 4096 + 1234);
    const auto file = open_contents(contents);
    SKIP_WITHOUT_DIRECT_IO(*file);
    std::mt19937_64 random(3);
    for (uint64_t rest = 0; rest < 4096; ++rest) {
        const uint64_t length = 1 + rest + 4096 * (random() % 3);
        const uint64_t offset = random() % (contents.size() - length + 1);
        expect_range(*file, contents, offset, length);
        if (HasFatalFailure()) return;
    }
}

TEST_P(PosixFileTest, ReadsTheTail) {
    for (const uint64_t size : {8 * 4096, 8 * 4096 + 1, 8 * 4096 + 511, 8 * 4096 + 512, 8 * 4096 + 4095}) {
        const auto contents = make_contents(size);
        const auto file = open_contents(contents);
        SKIP_WITHOUT_DIRECT_IO(*file);
        for (const uint64_t length : {1, 2, 511, 512, 513, 4095, 4096, 4097, 20000}) {
            expect_range(*file, contents, size - length, length);
        }
    }
}

TEST_P(PosixFileTest, ReadsFilesSmallerThanABlock) {
    for (const uint64_t size : {1, 31, 511, 512, 513, 4095, 4096, 4097}) {
        const auto contents = make_contents(size);
        const auto file = open_contents(contents);
        SKIP_WITHOUT_DIRECT_IO(*file);
        expect_range(*file, contents, 0, size);
        expect_range(*file, contents, size - 1, 1);
    }
}

TEST_P(PosixFileTest, OpensAnEmptyFile) {
    const auto file = open_contents({});
    EXPECT_EQ(file->size(), 0u);
    EXPECT_TRUE(contains(reading_error(*file, 0, 1), "beyond the end of the file (size 0)"));
}

TEST_P(PosixFileTest, ReadOfNoBytesTouchesNothing) {
    const auto file = open_contents(make_contents(5000));
    EXPECT_TRUE(file->read(0, 0, nullptr).ok());
    EXPECT_TRUE(file->read(77, 0, nullptr).ok());
    EXPECT_TRUE(file->read(5000, 0, nullptr).ok());
}

TEST_P(PosixFileTest, RefusesARangeBeyondTheEnd) {
    const auto file = open_contents(make_contents(10000));
    EXPECT_EQ(reading_error(*file, 9000, 1001),
              path_ +
                  ": 1001 bytes at offset 9000 reach beyond the end of the file (size 10000): "
                  "the file is incomplete; copy or download it again");
    EXPECT_TRUE(contains(reading_error(*file, 20000, 1), "beyond the end"));
    EXPECT_TRUE(contains(file->read(1, UINT64_MAX, nullptr).error, "beyond the end"));
    EXPECT_TRUE(contains(file->read(UINT64_MAX, 1, nullptr).error, "beyond the end"));
}

TEST_P(PosixFileTest, ReportsAFileTruncatedUnderIt) {
    const auto file = open_contents(make_contents(64 * 4096));
    ASSERT_EQ(::truncate(path_.c_str(), 10 * 4096 + 100), 0);
    const std::string gone = reading_error(*file, 20 * 4096, 4096);
    EXPECT_EQ(gone, path_ +
                        ": 4096 bytes at offset 81920 reach beyond the end of the file (size 41060): "
                        "truncated or replaced while in use; restore the file and restart");
    const std::string cut = reading_error(*file, 9 * 4096 + 5, 8192);
    EXPECT_TRUE(contains(cut, "beyond the end of the file (size 41060)")) << cut;
    const std::string kept = reading_error(*file, 0, 4096);
    EXPECT_TRUE(contains(kept, "changed while in use (its size was 262144 bytes and is 41060)")) << kept;
    EXPECT_TRUE(contains(kept, "restart")) << kept;
}

TEST_P(PosixFileTest, ReportsAFileRewrittenInPlace) {
    const auto file = open_contents(make_contents(10 * 4096));
    write_file(path_, make_contents(10 * 4096, 2));
    const std::string error = reading_error(*file, 4096, 4096);
    EXPECT_EQ(error, path_ +
                         ": the file changed while in use (it was modified after it was opened); "
                         "restart to read the new contents");
}

TEST_P(PosixFileTest, ReportsAFileThatGrew) {
    const auto file = open_contents(make_contents(10 * 4096));
    std::ofstream(path_, std::ios::app) << "more";
    const std::string error = reading_error(*file, 4096, 4096);
    EXPECT_TRUE(contains(error, "its size was 40960 bytes and is 40964")) << error;
}

TEST_P(PosixFileTest, ReadsOnWhenReplacedByRename) {
    const auto contents = make_contents(10 * 4096);
    const auto file = open_contents(contents);
    write_file(path_ + ".new", make_contents(10 * 4096, 2));
    std::filesystem::rename(path_ + ".new", path_);
    expect_range(*file, contents, 5000, 20000);
}

TEST_P(PosixFileTest, ReadsOnWhenDeleted) {
    const auto contents = make_contents(10 * 4096);
    const auto file = open_contents(contents);
    std::filesystem::remove(path_);
    expect_range(*file, contents, 5000, 20000);
}

TEST_P(PosixFileTest, ReadsFromSeveralThreads) {
    const auto contents = make_contents(1 << 20);
    const auto file = open_contents(contents);
    std::vector<std::thread> threads;
    for (uint64_t seed = 0; seed < 4; ++seed) {
        threads.emplace_back([&, seed] {
            std::mt19937_64 random(seed);
            for (int i = 0; i < 100; ++i) {
                const uint64_t offset = random() % contents.size();
                expect_range(*file, contents, offset,
                             1 + random() % std::min<uint64_t>(contents.size() - offset, 60000));
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
}

TEST_P(PosixFileTest, NamesAMissingFile) {
    EXPECT_EQ(opening_error(dir_.file("absent.gguf"), GetParam()),
              dir_.file("absent.gguf") + ": cannot open the file: No such file or directory");
    write_file(path_, make_contents(1));
    EXPECT_EQ(opening_error(path_ + "/below", GetParam()), path_ + "/below: cannot open the file: Not a directory");
}

TEST_P(PosixFileTest, NamesAFileWithoutPermission) {
    write_file(path_, make_contents(1));
    ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
    // Root may read everything.
    const bool is_root = ::geteuid() == 0;
    if (is_root) {
        ASSERT_EQ(::seteuid(65534), 0);
    }
    const std::string error = opening_error(path_, GetParam());
    if (is_root) {
        ASSERT_EQ(::seteuid(0), 0);
    }
    EXPECT_EQ(error, path_ + ": cannot open the file: Permission denied");
}

TEST_P(PosixFileTest, RefusesADirectory) {
    EXPECT_EQ(opening_error(dir_.path().string(), GetParam()),
              dir_.path().string() + ": is a directory; give the path of a file in it");
}

TEST_P(PosixFileTest, RefusesAPipeWithoutWaitingForItsWriter) {
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    EXPECT_TRUE(contains(opening_error(path_, GetParam()), "is not a regular file"));
}

TEST_P(PosixFileTest, NamesTheLimitOfOpenFiles) {
    BMOE_SKIP_WITHOUT_DESCRIPTORS();
    const auto file = open_contents(make_contents(5000));
    SKIP_WITHOUT_DIRECT_IO(*file);
    std::string error;
    std::string limit;
    {
        // Direct reads take a second one: to read buffered for lack of it would be slow and say nothing.
        const test::FewDescriptors few(GetParam() == DirectIo::kVerified ? 1 : 0);
        limit = few.limit();
        error = opening_error(path_, GetParam());
    }
    EXPECT_EQ(error, path_ + ": cannot open the file: Too many open files; this process may have " + limit +
                         " files open: raise that limit (ulimit -n)");
    EXPECT_EQ(opening_error(path_, GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(Modes, PosixFileTest, ::testing::Values(DirectIo::kVerified, DirectIo::kOff),
                         [](const auto &mode) { return mode.param == DirectIo::kVerified ? "Direct" : "Buffered"; });

TEST(PosixFileDirectTest, FallsBackWhereTheOpenIsRefused) {
    const std::string path = "/proc/version";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
    const OpenedFile opened = open_posix_file(path, DirectIo::kVerified);
    EXPECT_FALSE(opened.file->is_direct());
    EXPECT_EQ(opened.note, "/proc/version: the file system refuses direct I/O (Invalid argument); using buffered I/O");
}

// Kernels from 6.6 take direct I/O on tmpfs, older ones refuse the open; either must give the right bytes.
TEST(PosixFileDirectTest, ReadsAFileInMemory) {
    struct statfs info = {};
    if (::statfs("/dev/shm", &info) != 0 || info.f_type != kTmpfsMagic || ::access("/dev/shm", W_OK) != 0) {
        GTEST_SKIP() << "/dev/shm is no writable tmpfs";
    }
    const Scratch dir("/dev/shm");
    const std::string path = dir.file("model.gguf");
    const auto contents = make_contents(100000);
    write_file(path, contents);
    const OpenedFile opened = open_posix_file(path, DirectIo::kVerified);
    EXPECT_EQ(opened.file->is_direct(), opened.note.empty()) << opened.note;
    RecordProperty("direct", opened.file->is_direct() ? "yes" : "no");
    RecordProperty("note", opened.note);
    expect_range(*opened.file, contents, 12345, 54321);
    expect_range(*opened.file, contents, 99999, 1);
}

// Pages of the file in the page cache.
size_t count_cached_pages(const std::string &path, size_t size) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void *mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT_NE(mapping, MAP_FAILED);
    std::vector<unsigned char> pages((size + 4095) / 4096);
    EXPECT_EQ(::mincore(mapping, size, pages.data()), 0);
    ::munmap(mapping, size);
    ::close(fd);
    size_t cached = 0;
    for (const unsigned char page : pages) cached += page & 1;
    return cached;
}

TEST(PosixFileDirectTest, LeavesThePageCacheAlone) {
    const Scratch dir;
    const std::string path = dir.file("model.gguf");
    const auto contents = make_contents(16 << 20);
    write_file(path, contents);
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
    if (count_cached_pages(path, contents.size()) != 0) GTEST_SKIP() << "the file system keeps pages of the new file";

    const OpenedFile opened = open_posix_file(path, DirectIo::kVerified);
    if (!opened.file->is_direct()) GTEST_SKIP() << opened.note;
    expect_range(*opened.file, contents, 1000000, 8 << 20);
    EXPECT_EQ(count_cached_pages(path, contents.size()), 0u);
}

}  // namespace
}  // namespace bmoe::io
