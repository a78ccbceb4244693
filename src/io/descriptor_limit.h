// Running out of file descriptors is no property of a file or of the system: it is said as what it is.
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <string>

#include "base/error.h"

namespace bmoe::io {

// For the error number of a call that makes a descriptor: the limit that is reached and how to raise it, to be put behind the
// error's own text; empty if the error is another.
inline std::string descriptor_limit(int error) {
    if (error == ENFILE) return "; the system's limit of open files is reached: close programs or raise fs.file-max";
    if (error != EMFILE) return {};
    rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return cat("; this process may have ", limit.rlim_cur, " files open: raise that limit (ulimit -n)");
}

}  // namespace bmoe::io
