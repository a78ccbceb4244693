// A read taken apart into system calls, for a reader that has the calls made by other means than RandomAccessFile::read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace bmoe::io {

// The arguments of one pread.
struct ReadCall {
    int fd = -1;
    uint64_t offset = 0;  // bytes
    uint64_t length = 0;  // bytes
    std::byte *dst = nullptr;
};

struct ReadSteps {
    // The read, with the meaning of RandomAccessFile::read. Set by the reader.
    uint64_t offset = 0;
    uint64_t length = 0;
    std::byte *dst = nullptr;

    // Set by the file: the call to make next, and after the last one what is wrong, without the file's name, if anything is.
    ReadCall call;
    std::string fault;

    bool ended() const { return call.fd < 0; }
    void end(std::string with_fault) {
        call.fd = -1;
        fault = std::move(with_fault);
    }
};

}  // namespace bmoe::io
