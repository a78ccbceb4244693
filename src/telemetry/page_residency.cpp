#include "telemetry/page_residency.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace bmoe::telemetry {

std::optional<PageCount> count_resident_pages(const void *begin, uint64_t size) {
    constexpr uint64_t kPagesAtOnce = 1 << 16;
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<uintptr_t>(begin) / page * page;
    const uintptr_t end = reinterpret_cast<uintptr_t>(begin) + size;
    PageCount count;
    std::vector<unsigned char> flags;
    for (uintptr_t at = first; at < end; at += kPagesAtOnce * page) {
        const uint64_t pages = std::min(kPagesAtOnce, (end - at + page - 1) / page);
        flags.resize(pages);
        if (mincore(reinterpret_cast<void *>(at), pages * page, flags.data()) != 0) {
            return std::nullopt;
        }
        count.pages += pages;
        count.resident += static_cast<uint64_t>(
            std::count_if(flags.begin(), flags.end(), [](unsigned char flag) { return (flag & 1) != 0; }));
    }
    return count;
}

}  // namespace bmoe::telemetry
