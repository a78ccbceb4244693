// How much of a stretch of memory is really in memory.
#pragma once

#include <cstdint>
#include <optional>

namespace bmoe::telemetry {

struct PageCount {
    uint64_t pages = 0;
    uint64_t resident = 0;
};

// Pages of [begin, begin + size) and how many of them are in memory now, as mincore() says; empty if it cannot tell.
std::optional<PageCount> count_resident_pages(const void *begin, uint64_t size);

}  // namespace bmoe::telemetry
