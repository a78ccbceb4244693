#include "cli/huge_page_malloc.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace bmoe::cli {

void use_huge_page_malloc(char **argv) {
#ifdef __GLIBC__
    const char *present = std::getenv("GLIBC_TUNABLES");
    std::string tunables = present != nullptr ? present : "";
    if (tunables.find("glibc.malloc.hugetlb") != std::string::npos) {
        return;
    }
    tunables += (tunables.empty() ? "" : ":") + std::string("glibc.malloc.hugetlb=1:glibc.malloc.mxfast=0");
    if (setenv("GLIBC_TUNABLES", tunables.c_str(), 1) == 0) {
        // By its own path: the process would be called "exe" otherwise.
        std::error_code failed;
        const std::string self = std::filesystem::read_symlink("/proc/self/exe", failed).string();
        if (!failed) {
            execv(self.c_str(), argv);
        }
    }
#else
    static_cast<void>(argv);
#endif
}

}  // namespace bmoe::cli
