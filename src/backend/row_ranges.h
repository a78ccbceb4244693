// Who takes which rows: a team of threads shares out the rows of several items (products by one expert) in ranges.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace bmoe::backend {

struct RowRange {
    int64_t begin = 0;
    int64_t end = 0;
    bool is_last = false;  // from now on there is nothing to take of any item

    int64_t rows() const { return end - begin; }
};

class RowRanges {
  public:
    // ggml's panels and the row kernels go through so many weight rows without remainders.
    static constexpr int64_t kBlock = 16;

    // --- while no thread is at work ---

    // Forgets all items; the `n_items` new ones are to be set. Keeps its memory from one use to the next.
    void reset(size_t n_items) {
        if (n_items > capacity_) {
            items_ = std::make_unique<Item[]>(n_items);
            capacity_ = n_items;
        }
        n_items_ = n_items;
        open_.store(n_items, std::memory_order_relaxed);
    }

    // `rows` (at least one), taken `together` at a time.
    void set(size_t item, int64_t rows, int64_t together) {
        Item &it = items_[item];
        it.rows = rows;
        it.together = together;
        it.next.store(0, std::memory_order_relaxed);
        it.unfinished.store(rows, std::memory_order_relaxed);
    }

    // A multiple of kBlock rows to take together: few enough to even out late slices and unequal cores, enough for taking them
    // to cost nothing.
    static int64_t even_share(int64_t rows, int n_threads) {
        constexpr int64_t kRangesPerThread = 4;
        const int64_t share = rows / (n_threads * kRangesPerThread) + kBlock - 1;
        return std::max(kBlock, share / kBlock * kBlock);
    }

    // --- by any thread ---

    size_t items() const { return n_items_; }

    // Something is left that nobody has taken.
    bool any_left() const { return open_.load(std::memory_order_acquire) > 0; }
    bool any_left(size_t item) const { return items_[item].next.load(std::memory_order_relaxed) < items_[item].rows; }

    // The next range of an item. False if none is left.
    bool take(size_t item, RowRange &range) {
        Item &it = items_[item];
        if (!any_left(item)) {
            return false;
        }
        range.begin = it.next.fetch_add(it.together, std::memory_order_relaxed);
        if (range.begin >= it.rows) {
            return false;
        }
        range.end = std::min(range.begin + it.together, it.rows);
        range.is_last = range.end == it.rows && open_.fetch_sub(1, std::memory_order_acq_rel) == 1;
        return true;
    }

    // A range that was taken is done. True if all rows of its item are now; what other threads did to them is then visible.
    bool finish(size_t item, const RowRange &range) {
        return items_[item].unfinished.fetch_sub(range.rows(), std::memory_order_acq_rel) == range.rows();
    }

  private:
    struct Item {
        int64_t rows = 0;
        int64_t together = 0;
        std::atomic<int64_t> next{0};        // first row that nobody has taken
        std::atomic<int64_t> unfinished{0};  // rows not yet done
    };
    std::unique_ptr<Item[]> items_;
    size_t n_items_ = 0;
    size_t capacity_ = 0;
    std::atomic<size_t> open_{0};  // items not taken whole
};

}  // namespace bmoe::backend
