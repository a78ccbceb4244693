#include "cli/huge_page_malloc.h"

#include <unistd.h>

#include <cstdlib>
#include <string>

namespace bmoe::cli {

void use_huge_page_malloc(char **argv) {
#ifdef __GLIBC__
    const char *present = std::getenv("GLIBC_TUNABLES");
    std::string tunables = present != nullptr ? present : "";
    if (tunables.find("glibc.malloc.hugetlb") != std::string::npos) {
        return;
    }
    tunables += (tunables.empty() ? "" : ":") + std::string("glibc.malloc.hugetlb=1");
    if (setenv("GLIBC_TUNABLES", tunables.c_str(), 1) == 0) {
        execv("/proc/self/exe", argv);
    }
#else
    static_cast<void>(argv);
#endif
}

}  // namespace bmoe::cli
