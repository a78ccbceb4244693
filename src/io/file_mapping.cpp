#include "io/file_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/error.h"

// Older C libraries do not name it.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace bmoe::io {
namespace {

// The kernel reads ahead no more than the device takes in one request or its own window, a MiB or less as a rule.
constexpr uint64_t kStep = uint64_t{1} << 20;

std::string errno_text(int code) { return std::system_category().message(code); }

uint64_t page_size() {
    static const auto size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

// Kernels before 5.14 have no call for it. There a page that cannot be read ends the process.
void touch(const std::byte *begin, uint64_t size) {
    for (uint64_t at = 0; at < size; at += page_size()) {
        static_cast<void>(*static_cast<const volatile std::byte *>(begin + at));
    }
}

}  // namespace

FileMapping::FileMapping(const RandomAccessFile &file) : path_(file.path()), size_(file.size()) {
    // By the descriptor that is read by: another file may have the name by now.
    struct stat info = {};
    if (::fstat(file.descriptor(), &info) != 0 || static_cast<uint64_t>(info.st_size) != size_) {
        throw Error(cat(path_, ": the file changed while in use; restart to read the new contents"));
    }
    void *mapped = size_ > 0 ? ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0) : nullptr;
    if (mapped == MAP_FAILED) {
        throw Error(cat(path_, ": cannot map the file: ", errno_text(errno), "; use --dense-weights anon"));
    }
    data_ = static_cast<const std::byte *>(mapped);
}

FileMapping::~FileMapping() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte *>(data_), size_);
}

void FileMapping::close(uint64_t offset, uint64_t length) {
    const uint64_t begin = (offset + page_size() - 1) / page_size() * page_size();
    const uint64_t end = (offset + length) / page_size() * page_size();
    if (begin >= end) return;
    // Not unmapped: something else could come to lie there.
    void *at = const_cast<std::byte *>(data_ + begin);
    if (::mmap(at, end - begin, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
        MAP_FAILED) {
        throw Error(cat(path_, ": cannot map a part of the file: ", errno_text(errno), "; use --dense-weights anon"));
    }
}

ReadStatus FileMapping::sweep(uint64_t offset, uint64_t length) const {
    if (length == 0) return {};
    const uint64_t end = std::min(offset + length, size_);
    const uint64_t first = offset / page_size() * page_size();
    // A step's pages in one read, while those of the step before are mapped. Where that is not done it only takes longer.
    const auto announce = [&](uint64_t at) {
        if (at < end) ::madvise(const_cast<std::byte *>(data_ + at), std::min(kStep, end - at), MADV_WILLNEED);
    };
    announce(first);
    for (uint64_t at = first; at < end; at += kStep) {
        auto *begin = const_cast<std::byte *>(data_ + at);
        const uint64_t size = std::min(kStep, end - at);
        announce(at + kStep);
        if (::madvise(begin, size, MADV_POPULATE_READ) == 0) continue;
        if (errno != EINVAL) {
            return {cat(path_, ": cannot read ", size, " bytes at offset ", at,
                        " into the page cache: ", errno_text(errno), "; check the disk and the kernel log")};
        }
        touch(begin, size);
    }
    return {};
}

bool residency_is_told(const std::string &path) {
    struct stat info = {};
    return ::stat(path.c_str(), &info) == 0 && (::geteuid() == 0 || info.st_uid == ::geteuid() ||
                                                ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0);
}

}  // namespace bmoe::io
