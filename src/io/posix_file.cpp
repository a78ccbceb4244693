#include "io/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "io/aligned_buffer.h"
#include "io/descriptor_limit.h"

namespace bmoe::io {
namespace {

// Requests aligned to 4096 are valid on devices with blocks of 512 bytes too, and fit pages.
constexpr uint32_t kMinBlock = 4096;
// Slots and buffers carry a block of slack on each side; a file system that wants more than this is read with buffers.
constexpr uint32_t kMaxBlock = 64 << 10;
constexpr uint64_t kVerifiedBlocks = 4;  // per offset that is compared

std::string errno_text(int code) { return std::system_category().message(code); }

class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor &operator=(Descriptor &&other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }

    bool is_open() const { return fd_ >= 0; }
    int get() const { return fd_; }

  private:
    int fd_;
};

[[noreturn]] void throw_cannot_open(const std::string &path, int error) {
    throw Error(cat(path, ": cannot open the file: ", errno_text(error), descriptor_limit(error)));
}

// On failure errno says why.
Descriptor open_descriptor(const std::string &path, int extra_flags) {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | extra_flags);
    } while (fd < 0 && errno == EINTR);
    return Descriptor(fd);
}

bool same_version(const struct stat &a, const struct stat &b) {
    return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// What the file system wants direct reads to be aligned to; 0 if it says that it has none.
uint32_t direct_block_size(int fd) {
#ifdef STATX_DIOALIGN
    struct statx info = {};
    if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 && (info.stx_mask & STATX_DIOALIGN) != 0) {
        if (info.stx_dio_offset_align == 0) return 0;
        return std::max({kMinBlock, info.stx_dio_offset_align, info.stx_dio_mem_align});
    }
#else
    (void)fd;
#endif
    return kMinBlock;
}

// The functions that return a string return what is wrong, without the path, or nothing if all is well.
class PosixFile final : public RandomAccessFile {
  public:
    PosixFile(std::string path, Descriptor buffered, const struct stat &opened)
        : path_(std::move(path)), buffered_(std::move(buffered)), opened_(opened) {
        // Experts are read at random; read-ahead would multiply the bytes. Where the advice is refused, reads only cost more.
        ::posix_fadvise(buffered_.get(), 0, 0, POSIX_FADV_RANDOM);
    }

    const std::string &path() const override { return path_; }
    uint64_t size() const override { return static_cast<uint64_t>(opened_.st_size); }
    uint32_t block_size() const override { return block_; }
    bool is_direct() const override { return direct_.is_open(); }
    int descriptor() const override { return buffered_.get(); }

    ReadStatus read(uint64_t offset, uint64_t length, std::byte *dst) const override {
        std::string fault = read_range(offset, length, dst, is_direct());
        if (fault.empty()) return {};
        return {cat(path_, ": ", fault)};
    }

    bool start(ReadSteps &steps) const override {
        start(steps, is_direct());
        return true;
    }
    void advance(ReadSteps &steps, int64_t result) const override;

    // Turns direct reads on if they work; otherwise returns why not.
    std::string enable_direct();

  private:
    std::string read_range(uint64_t offset, uint64_t length, std::byte *dst, bool directly) const;
    void start(ReadSteps &steps, bool directly) const;
    std::string compare_reads() const;
    std::string compare_reads_at(uint64_t offset, uint64_t length, std::byte *direct, std::byte *buffered) const;
    std::string check_unchanged() const;
    std::string describe_end(uint64_t offset, uint64_t length) const;

    std::string path_;
    Descriptor buffered_;
    Descriptor direct_;
    struct stat opened_;
    uint32_t block_ = kMinBlock;
};

std::string describe_errno(uint64_t offset, uint64_t length, int code) {
    std::string text = cat("cannot read ", length, " bytes at offset ", offset, ": ", errno_text(code));
    if (code == EIO) text += "; check the disk and the kernel log";
    return text;
}

std::string PosixFile::read_range(uint64_t offset, uint64_t length, std::byte *dst, bool directly) const {
    ReadSteps steps{offset, length, dst, {}, {}};
    start(steps, directly);
    while (!steps.ended()) {
        const ReadCall &call = steps.call;
        const ssize_t got = ::pread(call.fd, call.dst, call.length, static_cast<off_t>(call.offset));
        advance(steps, got < 0 ? -errno : got);
    }
    return std::move(steps.fault);
}

void PosixFile::start(ReadSteps &steps, bool directly) const {
    const uint64_t offset = steps.offset;
    const uint64_t length = steps.length;
    if (length == 0) return steps.end({});
    if (offset > size() || length > size() - offset) {
        return steps.end(cat(length, " bytes at offset ", offset, " reach beyond the end of the file (size ", size(),
                             "): the file is incomplete; copy or download it again"));
    }
    const Span blocks = span(offset, length);
    steps.call = directly ? ReadCall{direct_.get(), blocks.offset, blocks.length, steps.dst}
                          : ReadCall{buffered_.get(), offset, length, steps.dst + blocks.lead};
}

void PosixFile::advance(ReadSteps &steps, int64_t result) const {
    if (result == -EINTR) return;  // the same call again
    if (result < 0) return steps.end(describe_errno(steps.offset, steps.length, static_cast<int>(-result)));
    if (result == 0) return steps.end(describe_end(steps.offset, steps.length));
    ReadCall &call = steps.call;
    const uint64_t end = steps.offset + steps.length;
    uint64_t reached = call.offset + static_cast<uint64_t>(result);
    if (reached >= end) return steps.end(check_unchanged());
    if (call.fd == direct_.get()) {
        reached &= ~uint64_t{block_ - 1};
        if (reached == call.offset) {
            // Less than a block arrived: direct reads cannot go on from there.
            call.fd = buffered_.get();
            call.length = end - call.offset;
            return;
        }
    }
    const uint64_t step = reached - call.offset;
    call.offset = reached;
    call.length -= step;
    call.dst += step;
}

std::string PosixFile::describe_end(uint64_t offset, uint64_t length) const {
    struct stat now = {};
    if (::fstat(buffered_.get(), &now) != 0) now = opened_;
    return cat(length, " bytes at offset ", offset, " reach beyond the end of the file (size ", now.st_size,
               "): truncated or replaced while in use; restore the file and restart");
}

std::string PosixFile::check_unchanged() const {
    struct stat now = {};
    if (::fstat(buffered_.get(), &now) != 0) return cat("cannot tell whether the file changed: ", errno_text(errno));
    if (same_version(now, opened_)) return {};
    return now.st_size != opened_.st_size ? cat("the file changed while in use (its size was ", opened_.st_size,
                                                " bytes and is ", now.st_size, "); restart to read the new contents")
                                          : std::string(
                                                "the file changed while in use (it was modified after it was opened); "
                                                "restart to read the new contents");
}

std::string PosixFile::enable_direct() {
    const uint32_t block = direct_block_size(buffered_.get());
    if (block == 0) return "the file system has no direct I/O for this file";
    if (block > kMaxBlock) return cat("the file system wants direct reads aligned to ", block, " bytes");

    Descriptor direct = open_descriptor(path_, O_DIRECT);
    if (!direct.is_open()) {
        const int error = errno;
        if (!descriptor_limit(error).empty()) throw_cannot_open(path_, error);
        return cat("the file system refuses direct I/O (", errno_text(error), ")");
    }
    struct stat reopened = {};
    if (::fstat(direct.get(), &reopened) != 0) return cat("direct I/O: ", errno_text(errno));
    if (reopened.st_dev != opened_.st_dev || reopened.st_ino != opened_.st_ino) {
        throw Error(cat(path_, ": the file was replaced while it was being opened; try again"));
    }

    const uint32_t buffered_block = block_;
    block_ = block;
    direct_ = std::move(direct);
    std::string fault = compare_reads();
    if (!fault.empty()) {
        direct_ = Descriptor();
        block_ = buffered_block;
    }
    return fault;
}

// Compares at the start, at places spread over the file, and at the end, where the last block is not whole.
std::string PosixFile::compare_reads() const {
    const uint64_t piece = kVerifiedBlocks * block_;
    const AlignedBuffer direct(piece, block_);
    const AlignedBuffer buffered(piece, block_);
    const uint64_t tail = size() > piece ? size() - piece + block_ : 0;
    for (const uint64_t place : {uint64_t{0}, size() / 4, size() / 2, size() / 4 * 3, tail}) {
        const uint64_t offset = place & ~uint64_t{block_ - 1};
        const uint64_t length = std::min(piece, size() - offset);
        std::string fault = compare_reads_at(offset, length, direct.data(), buffered.data());
        if (!fault.empty()) return fault;
    }
    return {};
}

std::string PosixFile::compare_reads_at(uint64_t offset, uint64_t length, std::byte *direct,
                                        std::byte *buffered) const {
    // Different, so that a read that reports success and writes nothing is noticed.
    const uint64_t room = span(offset, length).length;
    std::memset(direct, 0x00, room);
    std::memset(buffered, 0xff, room);

    std::string buffered_fault = read_range(offset, length, buffered, false);
    ::posix_fadvise(buffered_.get(), static_cast<off_t>(offset), static_cast<off_t>(room), POSIX_FADV_DONTNEED);
    if (!buffered_fault.empty()) throw Error(cat(path_, ": ", buffered_fault));

    std::string direct_fault = read_range(offset, length, direct, true);
    if (!direct_fault.empty()) return cat("direct reads fail (", direct_fault, ")");
    const std::byte *end = direct + length;
    const std::byte *differs = std::mismatch(direct, direct + length, buffered).first;
    if (differs == end) return {};
    return cat("direct reads differ from buffered reads at offset ", offset + static_cast<uint64_t>(differs - direct),
               " (a FUSE mount?)");
}

}  // namespace

OpenedFile open_posix_file(const std::string &path, DirectIo mode) {
    // Before opening: opening a pipe would wait for its writer.
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) throw_cannot_open(path, errno);
    if (S_ISDIR(info.st_mode)) throw Error(cat(path, ": is a directory; give the path of a file in it"));
    if (!S_ISREG(info.st_mode)) throw Error(cat(path, ": is not a regular file; give the path of a file on a disk"));

    Descriptor buffered = open_descriptor(path, 0);
    if (!buffered.is_open()) throw_cannot_open(path, errno);
    if (::fstat(buffered.get(), &info) != 0) throw_cannot_open(path, errno);

    auto file = std::make_unique<PosixFile>(path, std::move(buffered), info);
    std::string note;
    if (mode == DirectIo::kVerified) {
        const std::string fault = file->enable_direct();
        if (!fault.empty()) note = cat(path, ": ", fault, "; using buffered I/O");
    }
    return {std::move(file), std::move(note)};
}

}  // namespace bmoe::io
