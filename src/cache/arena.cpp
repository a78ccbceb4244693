#include "cache/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/mib.h"

// Older C libraries do not name it.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace bmoe::cache {

namespace {

constexpr uint64_t kHugePage = uint64_t{2} << 20;

// madvise succeeds even where the administrator has turned huge pages off.
bool kernel_gives_huge_pages() {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string line;
    return std::getline(file, line) && line.find("[never]") == std::string::npos;
}

}  // namespace

uint64_t Arena::page_size() {
    static const auto size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

Arena::Arena(uint64_t size) : size_(size) {
    if (size == 0) return;
    // Room to align the start, and a page on each side that stays closed.
    reserved_size_ = size + kHugePage + page_size();
    reserved_ = reserved_size_ < size
                    ? MAP_FAILED
                    : mmap(nullptr, reserved_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved_ == MAP_FAILED) {
        throw Error(cat("expert cache: cannot reserve ", size / kMiB, " MiB of addresses: ", std::strerror(errno),
                        "; give a smaller --cache-mb or raise the limit of virtual memory (ulimit -v)"));
    }
    const uint64_t open = reinterpret_cast<uintptr_t>(reserved_) + page_size();
    data_ = static_cast<std::byte *>(reserved_) + page_size() + (kHugePage - open % kHugePage) % kHugePage;
    if (mprotect(data_, size, PROT_READ | PROT_WRITE) != 0) {
        const int error = errno;
        munmap(reserved_, reserved_size_);
        throw Error(cat("expert cache: cannot make ", size / kMiB, " MiB writable: ", std::strerror(error),
                        "; give a smaller --cache-mb or allow overcommit (vm.overcommit_memory)"));
    }
    const bool advised = madvise(data_, size, MADV_HUGEPAGE) == 0;
    huge_pages_ = advised && size >= kHugePage && kernel_gives_huge_pages();
}

Arena::~Arena() {
    if (reserved_ != nullptr) munmap(reserved_, reserved_size_);
}

int Arena::populate(std::byte *begin, uint64_t size) {
    return madvise(begin, size, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
}

void Arena::prefault() {
    const int error = populate(data_, size_);
    if (error == 0) return;
    if (error != EINVAL) {
        throw Error(cat("expert cache: cannot back ", size_ / kMiB, " MiB with memory: ", std::strerror(error),
                        "; give a smaller --cache-mb"));
    }
    for (uint64_t at = 0; at < size_; at += page_size()) {
        // Writing what is there keeps contents; volatile keeps the compiler from dropping it.
        auto *byte = reinterpret_cast<volatile unsigned char *>(data_ + at);
        *byte = *byte;
    }
}

}  // namespace bmoe::cache
