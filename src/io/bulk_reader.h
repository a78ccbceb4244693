// Large sequential reads into memory of any alignment, by several lanes at once: for loading dense weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/random_access_file.h"

namespace bmoe::io {

class BulkReader {
  public:
    // `lanes` (1..64) reads at once, each with a bounce buffer of `chunk` bytes (a multiple of 4096). The thread that calls
    // read() is one of the lanes; the other threads live as long as the reader and sleep between calls. Throws bmoe::Error.
    explicit BulkReader(int lanes, size_t chunk = size_t{2} << 20);
    ~BulkReader();
    BulkReader(const BulkReader &) = delete;
    BulkReader &operator=(const BulkReader &) = delete;

    // Reads exactly [offset, offset + length) of `file` to `dst`; no byte outside of [dst, dst + length) is written. Returns
    // the first error by offset, if any; the contents of `dst` are then undefined. One call at a time.
    ReadStatus read(const RandomAccessFile &file, uint64_t offset, uint64_t length, void *dst);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace bmoe::io
