#include "cache/prefaulter.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <thread>
#include <vector>

#include "base/mib.h"
#include "cache/arena.h"

namespace bmoe::cache {
namespace {

uint64_t backed_pages(const Arena &arena) {
    std::vector<unsigned char> pages(arena.size() / Arena::page_size());
    EXPECT_EQ(mincore(arena.data(), arena.size(), pages.data()), 0);
    uint64_t backed = 0;
    for (const unsigned char page : pages) {
        backed += page & 1;
    }
    return backed;
}

// Waits for what another thread does; a test that fails waits long.
bool becomes_backed(const Arena &arena, uint64_t bytes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
        if (backed_pages(arena) * Arena::page_size() >= bytes) {
            return true;
        }
        std::this_thread::yield();
    }
    return false;
}

bool kernel_can_populate() {
    const Arena arena(Arena::page_size());
    return Arena::populate(arena.data(), arena.size()) == 0;
}

TEST(Prefaulter, KeepsAheadOfWhatIsUsed) {
    if (!kernel_can_populate()) {
        GTEST_SKIP() << "the kernel has no MADV_POPULATE_WRITE";
    }
    const Arena arena(64 * kMiB);
    Prefaulter prefaulter(arena.data(), arena.size(), 16 * kMiB);
    EXPECT_TRUE(becomes_backed(arena, 16 * kMiB));
    prefaulter.used(20 * kMiB);
    EXPECT_TRUE(becomes_backed(arena, 36 * kMiB));
    prefaulter.used(60 * kMiB);
    EXPECT_TRUE(becomes_backed(arena, 64 * kMiB));
}

TEST(Prefaulter, KeepsContents) {
    const Arena arena(32 * kMiB);
    for (uint64_t i = 0; i < arena.size(); i += 4096) {
        arena.data()[i] = static_cast<std::byte>(i / 4096);
    }
    {
        Prefaulter prefaulter(arena.data(), arena.size(), arena.size());
        becomes_backed(arena, arena.size());
    }
    for (uint64_t i = 0; i < arena.size(); i += 4096) {
        ASSERT_EQ(arena.data()[i], static_cast<std::byte>(i / 4096));
    }
}

TEST(Prefaulter, EndsAtOnceHoweverMuchIsLeft) {
    const Arena arena(8192 * kMiB);
    const Prefaulter prefaulter(arena.data(), arena.size(), arena.size());
}

TEST(Prefaulter, HasNothingToDoWithoutMemory) { const Prefaulter prefaulter(nullptr, 0, kMiB); }

}  // namespace
}  // namespace bmoe::cache
