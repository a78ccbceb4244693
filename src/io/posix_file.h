// The only place that opens model files. Direct I/O is used where it can be verified, buffered reads elsewhere.
#pragma once

#include <memory>
#include <string>

#include "io/random_access_file.h"

namespace bmoe::io {

enum class DirectIo {
    kVerified,  // direct reads if the file system takes them and they return what buffered reads return
    kOff,       // buffered reads
};

struct OpenedFile {
    std::unique_ptr<RandomAccessFile> file;
    // Why reads are buffered although direct ones were asked for, as a line for the user; empty otherwise.
    std::string note;
};

// Opens the regular file `path` for reading. With kVerified, the same bytes are read directly and through the page cache at
// several offsets and compared: a FUSE mount can accept O_DIRECT and return wrong data. Throws bmoe::Error, naming the path;
// also if there are no file descriptors left (kVerified takes two).
//
// A file renamed over `path` later is not noticed: the one that was opened is read on. A file written to or truncated in
// place is: every read compares size and modification time with those at opening.
OpenedFile open_posix_file(const std::string &path, DirectIo mode);

}  // namespace bmoe::io
