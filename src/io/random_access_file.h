// A file that is read at positions, from any number of threads. The interface exists so that tests can put slow, short,
// failing and reordered reads under the code that must survive them; posix_file.h is the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/read_steps.h"

namespace bmoe::io {

// Where a range of the file lands in memory: the range rounded out to whole blocks.
struct Span {
    uint64_t offset = 0;  // bytes, multiple of the block size
    uint64_t length = 0;  // bytes, multiple of the block size
    uint64_t lead = 0;    // bytes between the span's start and the first byte asked for
};

// Result of one read. `error` is empty on success; otherwise it is a sentence that names the file and the offset.
struct ReadStatus {
    std::string error;
    bool ok() const { return error.empty(); }
};

class RandomAccessFile {
  public:
    virtual ~RandomAccessFile() = default;

    virtual const std::string &path() const = 0;
    virtual uint64_t size() const = 0;  // bytes

    // Alignment of memory, offset and length for direct reads; a power of two. Files read through the page cache have one
    // too, so that callers lay out memory in one way.
    virtual uint32_t block_size() const = 0;

    // True if reads bypass the page cache.
    virtual bool is_direct() const = 0;

    // To map the file by, as long as it is open; -1: there is none.
    virtual int descriptor() const { return -1; }

    // Reads [offset, offset + length) so that its first byte lands at dst + span(offset, length).lead. `dst` is aligned to
    // block_size() and has room for span(offset, length).length bytes; every byte of that room may be overwritten.
    // A range that ends after the file is an error, as is a file that changed since it was opened. A read of no bytes is ok
    // and touches neither the file nor `dst`. Thread-safe.
    virtual ReadStatus read(uint64_t offset, uint64_t length, std::byte *dst) const = 0;

    // The same read in steps: start() sets the first call to make, advance() takes what a call returned (bytes, or minus an
    // error number) and sets the next one, until ended(). start() returns false if the file can only be read by read().
    // Thread-safe for steps that are distinct.
    virtual bool start(ReadSteps &steps) const {
        (void)steps;
        return false;
    }
    virtual void advance(ReadSteps &steps, int64_t result) const {
        (void)steps;
        (void)result;
    }

    Span span(uint64_t offset, uint64_t length) const {
        const uint64_t mask = block_size() - 1;
        const uint64_t begin = offset & ~mask;
        const uint64_t end = (offset + length + mask) & ~mask;
        return {begin, end - begin, offset - begin};
    }
};

}  // namespace bmoe::io
