#include "telemetry/page_residency.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace bmoe::telemetry {
namespace {

TEST(PageResidency, CountsThePagesThatWereTouched) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t size = 32 * page;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(madvise(memory, size, MADV_NOHUGEPAGE), 0);
    std::memset(memory, 1, 3 * page);
    const auto count = count_resident_pages(memory, size);
    ASSERT_TRUE(count.has_value());
    EXPECT_EQ(count->pages, 32U);
    EXPECT_EQ(count->resident, 3U);
    // A range that begins and ends within pages.
    const auto part = count_resident_pages(static_cast<char *>(memory) + 2 * page + 1, page);
    ASSERT_TRUE(part.has_value());
    EXPECT_EQ(part->pages, 2U);
    EXPECT_EQ(part->resident, 1U);
    munmap(memory, size);
    EXPECT_FALSE(count_resident_pages(memory, size).has_value());
}

TEST(PageResidency, NothingHasNoPages) {
    const auto count = count_resident_pages(nullptr, 0);
    ASSERT_TRUE(count.has_value());
    EXPECT_EQ(count->pages, 0U);
}

}  // namespace
}  // namespace bmoe::telemetry
