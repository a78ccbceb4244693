// RandomAccessFile::read for threads that must not let an exception out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include "base/error.h"
#include "io/random_access_file.h"

namespace bmoe::io {

inline ReadStatus guarded_read(const RandomAccessFile &file, uint64_t offset, uint64_t length, std::byte *dst) {
    try {
        return file.read(offset, length, dst);
    } catch (const std::exception &error) {
        return {cat(file.path(), ": cannot read ", length, " bytes at offset ", offset, ": ", error.what())};
    }
}

}  // namespace bmoe::io
