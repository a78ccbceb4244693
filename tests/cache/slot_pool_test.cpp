#include "cache/slot_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "base/error.h"
#include "cache/arena.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

constexpr uint64_t kHugePage = 2 * kMiB;

Geometry two_classes() {
    Geometry geometry = test::uniform(3, 16, 4, {200'000, 200'000, 300'000});
    geometry.layers[1].slice_bytes = {200'000, 200'000, 250'000};
    return geometry;
}

std::vector<Slot *> take_all(SlotPool &pool, uint32_t size_class) {
    std::vector<Slot *> slots;
    while (Slot *slot = pool.take_free(size_class)) slots.push_back(slot);
    return slots;
}

// Resident bytes of the mappings that hold the range.
uint64_t resident_bytes(const std::byte *begin, uint64_t size) {
    std::ifstream smaps("/proc/self/smaps");
    const auto first = reinterpret_cast<uintptr_t>(begin);
    bool inside = false;
    uint64_t total = 0;
    for (std::string line; std::getline(smaps, line);) {
        uintptr_t from = 0, to = 0;
        char dash = 0;
        std::istringstream words(line);
        if (words >> std::hex >> from >> dash >> to && dash == '-') {
            inside = from < first + size && to > first;
        } else if (inside && line.starts_with("Rss:")) {
            total += std::stoull(line.substr(4)) * 1024;
        }
    }
    return total;
}

bool kernel_can_populate() {
    const Arena arena(Arena::page_size());
    return Arena::populate(arena.data(), arena.size()) == 0;
}

// Has the whole pool, which begins at `begin`, backed by the thread that does so; false if that takes too long.
bool prefault_all(SlotPool &pool, const std::byte *begin) {
    pool.prefault_ahead();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
        if (resident_bytes(begin, pool.usage().mapped_bytes) >= pool.usage().mapped_bytes) return true;
        std::this_thread::yield();
    }
    return false;
}

uint64_t minor_faults() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return static_cast<uint64_t>(usage.ru_minflt);
}

TEST(SlotPool, SlicesAreAlignedApartAndOneAfterTheOther) {
    Geometry geometry = two_classes();
    SlotPool pool(geometry, 20 * kMiB);
    ASSERT_EQ(pool.classes(), 2u);
    const std::byte *end = nullptr;
    uint64_t slots = 0;
    for (uint32_t size_class : {0u, 1u}) {
        const auto &bytes = geometry.layers[size_class].slice_bytes;
        for (Slot *slot : take_all(pool, size_class)) {
            EXPECT_EQ(slot->size_class, size_class);
            ASSERT_EQ(slot->slices.size(), 3u);
            for (size_t s = 0; s < 3; ++s) {
                EXPECT_EQ(reinterpret_cast<uintptr_t>(slot->slices[s].room) % 4096, 0u);
                if (end == nullptr) {
                    EXPECT_EQ(reinterpret_cast<uintptr_t>(slot->slices[s].room) % kHugePage, 0u);
                } else {
                    EXPECT_EQ(slot->slices[s].room, end);
                }
                EXPECT_EQ(slot->slices[s].state.load(), SliceState::kEmpty);
                const uint64_t room = (bytes[s] + 4095) / 4096 * 4096 + 4096;
                std::memset(slot->slices[s].room, 0x5a, room);
                end = slot->slices[s].room + room;
            }
            ++slots;
        }
    }
    EXPECT_EQ(slots, pool.usage().slots);
}

TEST(SlotPool, MapsNoMoreThanTheBudget) {
    if (!kernel_can_populate()) GTEST_SKIP() << "the kernel has no MADV_POPULATE_WRITE";
    for (uint64_t budget : {7 * kMiB + 12'345, 9 * kMiB - 1, 12 * kMiB + 4095, 1000 * kMiB}) {
        SlotPool pool(two_classes(), budget);
        EXPECT_LE(pool.usage().mapped_bytes, budget);
        std::byte *begin = pool.take_free(0)->slices[0].room;
        EXPECT_TRUE(prefault_all(pool, begin));
        EXPECT_EQ(resident_bytes(begin, pool.usage().mapped_bytes), pool.usage().mapped_bytes)
            << "huge pages must not reach over the end";
    }
}

TEST(SlotPool, TheMinimumBudgetIsExact) {
    const uint64_t least = SlotPool::minimum_budget(two_classes());
    SlotPool pool(two_classes(), least);
    EXPECT_EQ(take_all(pool, 0).size(), 4u);
    EXPECT_EQ(take_all(pool, 1).size(), 4u);
    try {
        SlotPool too_small(two_classes(), least - 1);
        FAIL() << "a budget below the minimum was taken";
    } catch (const Error &error) {
        const std::string mib = std::to_string((least + kMiB - 1) / kMiB);
        EXPECT_NE(std::string(error.what()).find("at least " + mib + " MiB"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("--cache-mb " + mib), std::string::npos) << error.what();
    }
}

TEST(SlotPool, TheWholeBudgetHoldsEveryExpertAndMoreIsNotMapped) {
    const uint64_t whole = SlotPool::whole_budget(two_classes());
    SlotPool pool(two_classes(), 10 * whole);
    EXPECT_EQ(pool.usage().slots, 48u);
    EXPECT_EQ(pool.usage().mapped_bytes, whole);
    SlotPool exact(two_classes(), whole);
    EXPECT_EQ(exact.usage().slots, 48u);
}

TEST(SlotPool, GivesEverySlotOnceAndTakesItBack) {
    SlotPool pool(two_classes(), 16 * kMiB);
    const auto slots = take_all(pool, 1);
    EXPECT_EQ(std::set<Slot *>(slots.begin(), slots.end()).size(), slots.size());
    EXPECT_EQ(pool.take_free(1), nullptr);
    pool.give_back(slots[2]);
    EXPECT_EQ(pool.take_free(1), slots[2]);
    EXPECT_EQ(pool.take_free(1), nullptr);
    EXPECT_NE(pool.take_free(0), nullptr) << "the classes are separate";
}

TEST(SlotPool, SaysWhetherHugePagesWereGranted) {
    std::string setting;
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::getline(file, setting);
    const bool possible = !setting.empty() && setting.find("[never]") == std::string::npos;
    EXPECT_EQ(SlotPool(two_classes(), 16 * kMiB).usage().huge_pages, possible);
    EXPECT_FALSE(SlotPool(test::uniform(1, 4, 2, {1000}), kMiB).usage().huge_pages) << "smaller than one huge page";
}

TEST(SlotPool, PrefaultLeavesNoFaultForAReadIntoASlot) {
    if (!kernel_can_populate()) GTEST_SKIP() << "the kernel has no MADV_POPULATE_WRITE";
    const test::ScratchFolder folder;
    const std::string path = folder.write("data", std::string(200'704, 'x'));
    int file = open(path.c_str(), O_RDONLY | O_DIRECT);
    if (file < 0) file = open(path.c_str(), O_RDONLY);
    ASSERT_GE(file, 0);
    // Faults of reading into ten slots. The plain system call: a sanitizer's own faults do not count.
    const auto faults = [&](SlotPool &pool) {
        std::vector<Slot *> slots(10);
        for (Slot *&slot : slots) slot = pool.take_free(0);
        const uint64_t before = minor_faults();
        for (Slot *slot : slots) EXPECT_EQ(syscall(SYS_pread64, file, slot->slices[0].room, 200'704, 0), 200'704);
        return minor_faults() - before;
    };
    SlotPool lazy(two_classes(), 30 * kMiB), ready(two_classes(), 30 * kMiB);
    Slot *first = ready.take_free(0);
    ASSERT_TRUE(prefault_all(ready, first->slices[0].room));
    ready.give_back(first);
    EXPECT_GE(faults(lazy), 4u) << "a huge page each at least";
    EXPECT_LE(faults(ready), 1u);
    close(file);
}

TEST(SlotPool, ClosesTheAddressesOnBothSides) {
    SlotPool pool(two_classes(), 20 * kMiB);
    std::byte *begin = pool.take_free(0)->slices[0].room;
    std::byte *end = begin + pool.usage().mapped_bytes;
    unsigned char unused = 0;
    EXPECT_EQ(mincore(end - Arena::page_size(), Arena::page_size(), &unused), 0);
    EXPECT_DEATH(*reinterpret_cast<volatile char *>(end) = 1, "");
    EXPECT_DEATH(*reinterpret_cast<volatile char *>(begin - 1) = 1, "");
}

TEST(Arena, AnImpossibleSizeIsAnErrorWithAdvice) {
    try {
        Arena arena(uint64_t{1} << 60);
        FAIL() << "an exbibyte was mapped";
    } catch (const Error &error) {
        EXPECT_NE(std::string(error.what()).find("--cache-mb"), std::string::npos) << error.what();
    }
    EXPECT_THROW(Arena(UINT64_MAX / 4096 * 4096), Error);
}

TEST(Arena, PrefaultKeepsContents) {
    Arena arena(8 * kMiB);
    arena.data()[5 * kMiB] = std::byte{42};
    arena.prefault();
    EXPECT_EQ(arena.data()[5 * kMiB], std::byte{42});
}

}  // namespace
}  // namespace bmoe::cache
