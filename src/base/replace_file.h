// A file that is replaced as a whole or not at all, whatever fails and whenever the machine stops.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>

#include "base/error.h"

namespace bmoe {

// Makes or replaces `path`; of a link, the file that it stands for. Throws bmoe::Error.
inline void replace_file(const std::string &path, std::span<const std::byte> bytes) {
    std::error_code none;
    const std::filesystem::path real = std::filesystem::canonical(path, none);
    const std::string target = none ? path : real.string();
    std::string temporary = target + ".XXXXXX";
    const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
    bool is_written = fd >= 0;
    while (is_written && !bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) {
            continue;
        }
        is_written = n > 0;
        bytes = bytes.subspan(is_written ? static_cast<size_t>(n) : 0);
    }
    is_written = is_written && ::fsync(fd) == 0 && ::rename(temporary.c_str(), target.c_str()) == 0;
    const int error = errno;
    if (fd >= 0) {
        ::close(fd);
    }
    if (!is_written) {
        if (fd >= 0) {
            ::unlink(temporary.c_str());
        }
        throw Error(cat("cannot write ", path, ": ", std::strerror(error)));
    }
}

}  // namespace bmoe
