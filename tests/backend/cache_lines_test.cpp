#include "backend/cache_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace bmoe::backend {
namespace {

TEST(CacheLines, RoundsUpToWholeLines) {
    EXPECT_EQ(whole_cache_lines(0), 0u);
    EXPECT_EQ(whole_cache_lines(1), 64u);
    EXPECT_EQ(whole_cache_lines(64), 64u);
    EXPECT_EQ(whole_cache_lines(65), 128u);
}

TEST(CacheLines, StartOnALineHoweverLarge) {
    for (size_t bytes = 1; bytes < 2000; bytes += 37) {
        CacheLines lines;
        lines.reserve(bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(lines.data()) % kCacheLine, 0u) << bytes;
        EXPECT_TRUE(
            std::all_of(lines.data(), lines.data() + bytes, [](std::byte byte) { return byte == std::byte{}; }));
        std::memset(lines.data(), 0x5a, whole_cache_lines(bytes));
    }
}

TEST(CacheLines, StayWhereTheyAreWhileThereIsRoom) {
    CacheLines lines;
    EXPECT_EQ(lines.data(), nullptr);
    lines.reserve(0);
    EXPECT_EQ(lines.data(), nullptr);
    lines.reserve(100);
    std::byte *start = lines.data();
    start[99] = std::byte{42};
    lines.reserve(128);
    lines.reserve(1);
    EXPECT_EQ(lines.data(), start);
    EXPECT_EQ(start[99], std::byte{42});
    lines.reserve(129);
    lines.data()[128] = std::byte{42};
}

}  // namespace
}  // namespace bmoe::backend
