// A real FUSE mount whose direct reads return other bytes than its buffered reads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include "child_process.h"
#include "file_contents.h"
#include "io/aligned_buffer.h"
#include "io/posix_file.h"
#include "tests/support/scratch.h"

namespace bmoe::io {
namespace {

using bmoe::test::Scratch;
using test::ChildProcess;
using test::make_contents;

// Whatever happens to the test, the mount goes: with the server's SIGTERM, or else detached.
class FuseMount {
  public:
    FuseMount(const std::string &directory, const std::string &mount_point, const std::string &shift)
        : mount_point_(mount_point), server_({BMOE_LYING_FUSE, directory, mount_point, shift}) {
        std::string line;
        is_mounted_ = server_.read_line(line) && line == "ready";
    }
    ~FuseMount() {
        server_.terminate();
        server_.wait();
        ::umount2(mount_point_.c_str(), MNT_DETACH);
    }

    bool is_mounted() const { return is_mounted_; }

  private:
    std::string mount_point_;
    ChildProcess server_;
    bool is_mounted_ = false;
};

class FuseTest : public ::testing::Test {
  protected:
    void SetUp() override {
        const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (device < 0) GTEST_SKIP() << "/dev/fuse cannot be opened";
        ::close(device);
        std::filesystem::create_directory(dir_.path() / "real");
        std::filesystem::create_directory(dir_.path() / "mount");
        test::write_file(dir_.file("real/model.gguf"), contents_);
    }

    void expect_right_bytes(const RandomAccessFile &file) const {
        for (const uint64_t offset : {uint64_t{0}, uint64_t{5000}, uint64_t{777777}}) {
            const uint64_t length = contents_.size() - offset;
            const Span span = file.span(offset, length);
            const AlignedBuffer buffer(span.length, file.block_size());
            const ReadStatus status = file.read(offset, length, buffer.data());
            ASSERT_TRUE(status.ok()) << status.error;
            EXPECT_EQ(std::memcmp(buffer.data() + span.lead, contents_.data() + offset, length), 0);
        }
    }

    Scratch dir_;
    std::string path_ = dir_.file("mount/model.gguf");
    std::vector<std::byte> contents_ = make_contents((1 << 20) + 77);
};

#define SKIP_UNLESS_MOUNTED(mount) \
    if (!(mount).is_mounted()) GTEST_SKIP() << "mounting needs root or fusermount3 and a permitted mount"

TEST_F(FuseTest, ReadsALyingMountThroughThePageCache) {
    const FuseMount mount(dir_.file("real"), dir_.file("mount"), "512");
    SKIP_UNLESS_MOUNTED(mount);
    // The mount does take O_DIRECT, and lies.
    const int direct = ::open(path_.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    ASSERT_GE(direct, 0);
    const AlignedBuffer block(4096, 4096);
    EXPECT_EQ(::pread(direct, block.data(), 4096, 0), 4096);
    EXPECT_EQ(std::memcmp(block.data(), contents_.data() + 512, 4096), 0);
    ::close(direct);

    const OpenedFile opened = open_posix_file(path_, DirectIo::kVerified);
    EXPECT_FALSE(opened.file->is_direct());
    EXPECT_EQ(opened.note, path_ +
                               ": direct reads differ from buffered reads at offset 0 (a FUSE mount?); "
                               "using buffered I/O");
    expect_right_bytes(*opened.file);
}

TEST_F(FuseTest, ReadsAnHonestMountDirectly) {
    const FuseMount mount(dir_.file("real"), dir_.file("mount"), "0");
    SKIP_UNLESS_MOUNTED(mount);
    const OpenedFile opened = open_posix_file(path_, DirectIo::kVerified);
    EXPECT_TRUE(opened.file->is_direct()) << opened.note;
    expect_right_bytes(*opened.file);
}

}  // namespace
}  // namespace bmoe::io
