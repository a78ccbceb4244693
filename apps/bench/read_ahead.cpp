#include "bench/read_ahead.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace bmoe::bench {

namespace {

// Of a disk, of the disk that a partition is on, or of a file system with a device number of its own; "" if there is none.
std::string control_file(const std::string &file) {
    struct stat info {};
    if (stat(file.c_str(), &info) != 0) {
        return {};
    }
    const std::string device = cat(major(info.st_dev), ":", minor(info.st_dev));
    for (const std::string &path : {cat("/sys/dev/block/", device, "/queue/read_ahead_kb"),
                                    cat("/sys/dev/block/", device, "/../queue/read_ahead_kb"),
                                    cat("/sys/class/bdi/", device, "/read_ahead_kb")}) {
        if (access(path.c_str(), F_OK) == 0) {
            return path;
        }
    }
    return {};
}

int read_kib(const std::string &control) {
    std::ifstream in(control);
    int kib = -1;
    return in >> kib ? kib : -1;
}

bool write_kib(const std::string &control, int kib) {
    std::ofstream out(control);
    return static_cast<bool>(out << kib << std::flush);
}

}  // namespace

ReadAhead::ReadAhead(const std::string &file, int kib) : control_(control_file(file)), before_(read_kib(control_)) {
    if (before_ < 0) {
        throw Error(
            cat("the read-ahead of the device that holds ", file, " is not known to /sys, so it cannot be set"));
    }
    if (!write_kib(control_, kib)) {
        throw Error(cat("the read-ahead cannot be set to ", kib, " KiB: ", control_, " cannot be written; be root"));
    }
}

ReadAhead::~ReadAhead() { write_kib(control_, before_); }

int ReadAhead::current(const std::string &file) { return read_kib(control_file(file)); }

}  // namespace bmoe::bench
