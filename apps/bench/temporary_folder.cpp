#include "bench/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace bmoe::bench {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
    std::error_code failed;
    const fs::path parent = fs::temp_directory_path(failed);
    if (failed) {
        throw Error(cat("there is no folder for temporary files: ", failed.message(), "; set TMPDIR to one"));
    }
    std::string name = (parent / "bmoe-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
        throw Error(cat("cannot make a folder in ", parent.string(), ": ", std::strerror(errno),
                        "; set TMPDIR to one that can be written to"));
    }
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

}  // namespace bmoe::bench
