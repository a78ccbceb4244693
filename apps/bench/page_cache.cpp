#include "bench/page_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace bmoe::bench {

namespace {

constexpr char kControl[] = "/proc/sys/vm/drop_caches";

bool drop_all() {
    const int fd = open(kControl, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    sync();
    const bool done = write(fd, "3", 1) == 1;
    close(fd);
    return done;
}

// 0 or the error's number.
int drop_file(const std::string &path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return error;
}

}  // namespace

std::string drop_page_cache(DropCache what, const std::vector<std::string> &files) {
    if (what == DropCache::kNone) {
        return "kept";
    }
    if (what == DropCache::kAll && drop_all()) {
        return "dropped";
    }
    for (const std::string &file : files) {
        if (const int error = drop_file(file)) {
            return cat("kept: ", file, ": ", std::strerror(error));
        }
    }
    return what == DropCache::kAll ? cat("the model's dropped; ", kControl, " cannot be written")
                                   : "the model's dropped";
}

}  // namespace bmoe::bench
