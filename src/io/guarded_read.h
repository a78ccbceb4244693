// RandomAccessFile's reads for threads that must not let an exception out.
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

// What a read in steps came to.
inline ReadStatus outcome(const RandomAccessFile &file, const ReadSteps &steps) {
    if (steps.fault.empty()) return {};
    return {cat(file.path(), ": ", steps.fault)};
}

inline bool guarded_start(const RandomAccessFile &file, ReadSteps &steps) {
    try {
        return file.start(steps);
    } catch (const std::exception &error) {
        steps.end(cat("cannot read ", steps.length, " bytes at offset ", steps.offset, ": ", error.what()));
        return true;
    }
}

inline void guarded_advance(const RandomAccessFile &file, ReadSteps &steps, int64_t result) {
    try {
        file.advance(steps, result);
    } catch (const std::exception &error) {
        steps.end(cat("cannot read ", steps.length, " bytes at offset ", steps.offset, ": ", error.what()));
    }
}

}  // namespace bmoe::io
