#include "backend/row_ranges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace bmoe::backend {
namespace {

TEST(RowRanges, GoThroughAnItemInOrder) {
    RowRanges ranges;
    ranges.reset(2);
    ranges.set(0, 40, 16);
    ranges.set(1, 5, 16);
    EXPECT_EQ(ranges.items(), 2u);
    RowRange range;
    for (const auto &[begin, end] : {std::pair{0, 16}, {16, 32}, {32, 40}}) {
        EXPECT_TRUE(ranges.any_left(0));
        ASSERT_TRUE(ranges.take(0, range));
        EXPECT_EQ(range.begin, begin);
        EXPECT_EQ(range.end, end);
        EXPECT_FALSE(range.is_last);
        EXPECT_EQ(ranges.finish(0, range), end == 40);
    }
    EXPECT_FALSE(ranges.any_left(0));
    EXPECT_FALSE(ranges.take(0, range));
    EXPECT_TRUE(ranges.any_left());
    ASSERT_TRUE(ranges.take(1, range));
    EXPECT_EQ(range.rows(), 5);
    EXPECT_TRUE(range.is_last);
    EXPECT_FALSE(ranges.any_left());
    EXPECT_TRUE(ranges.finish(1, range));
}

TEST(RowRanges, BeginAnewWithFewerAndWithMoreItems) {
    RowRanges ranges;
    for (const size_t n : {3u, 0u, 1u, 5u}) {
        ranges.reset(n);
        EXPECT_EQ(ranges.any_left(), n > 0);
        for (size_t item = 0; item < n; ++item) ranges.set(item, 10, 10);
        for (size_t item = 0; item < n; ++item) {
            RowRange range;
            ASSERT_TRUE(ranges.take(item, range));
            EXPECT_EQ(range.is_last, item + 1 == n);
            EXPECT_TRUE(ranges.finish(item, range));
        }
        EXPECT_FALSE(ranges.any_left());
    }
}

TEST(RowRanges, AnEvenShareIsInWholeBlocks) {
    for (const int64_t rows : {1, 15, 16, 17, 100, 768, 2048, 14336}) {
        for (const int n_threads : {1, 2, 3, 64}) {
            const int64_t share = RowRanges::even_share(rows, n_threads);
            EXPECT_GE(share, RowRanges::kBlock);
            EXPECT_EQ(share % RowRanges::kBlock, 0);
        }
    }
    EXPECT_EQ(RowRanges::even_share(2048, 2), 256);
    EXPECT_EQ(RowRanges::even_share(768, 2), 96);
}

TEST(RowRanges, ThreadsTakeEveryRowOnceAndTheEndsAreNoticedOnce) {
    constexpr int kThreads = 4;
    constexpr size_t kItems = 6;
    constexpr int64_t kRows = 1000;
    RowRanges ranges;
    for (int round = 0; round < 50; ++round) {
        ranges.reset(kItems);
        for (size_t item = 0; item < kItems; ++item) ranges.set(item, kRows + static_cast<int64_t>(item), 7);
        // Plain numbers: whoever finishes an item must see what the others wrote.
        std::vector<std::vector<int>> taken(kItems);
        for (size_t item = 0; item < kItems; ++item) taken[item].resize(kRows + item);
        std::atomic<int> last{0};
        std::atomic<int> finished{0};
        std::atomic<int> wrong{0};
        const auto work = [&] {
            while (ranges.any_left()) {
                for (size_t item = 0; item < kItems; ++item) {
                    RowRange range;
                    while (ranges.take(item, range)) {
                        last += range.is_last ? 1 : 0;
                        for (int64_t row = range.begin; row < range.end; ++row) ++taken[item][row];
                        if (ranges.finish(item, range)) {
                            ++finished;
                            for (const int times : taken[item]) wrong += times != 1 ? 1 : 0;
                        }
                    }
                }
            }
        };
        std::vector<std::thread> threads;
        threads.reserve(kThreads);
        for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work);
        for (std::thread &thread : threads) thread.join();
        EXPECT_EQ(last, 1);
        EXPECT_EQ(finished, static_cast<int>(kItems));
        EXPECT_EQ(wrong, 0);
    }
}

}  // namespace
}  // namespace bmoe::backend
