#include "cache/prefaulter.h"

#include <algorithm>
#include <system_error>

#include "cache/arena.h"

namespace bmoe::cache {

namespace {

// So much is backed at once: a huge page or more, and soon done when the thread is to end.
constexpr uint64_t kStep = uint64_t{8} << 20;

}  // namespace

Prefaulter::Prefaulter(std::byte *data, uint64_t size, uint64_t ahead)
    : data_(data), size_(size), ahead_(ahead), goal_(std::min(size, ahead)) {
    try {
        thread_ = std::thread([this] { run(); });
    } catch (const std::system_error &) {
        // Pages are backed when they are touched.
    }
}

Prefaulter::~Prefaulter() {
    stop_.store(true);
    goal_.store(size_ + 1);  // a value that it does not wait on
    goal_.notify_one();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void Prefaulter::used(uint64_t bytes) {
    const uint64_t goal = std::min(size_, bytes + ahead_);
    if (goal >= goal_.load(std::memory_order_relaxed) + kStep || (goal == size_ && goal_.load() < size_)) {
        goal_.store(goal);
        goal_.notify_one();
    }
}

void Prefaulter::run() {
    uint64_t done = 0;
    while (!stop_.load() && done < size_) {
        const uint64_t goal = goal_.load();
        if (done >= goal) {
            goal_.wait(goal);
            continue;
        }
        const uint64_t step = std::min(kStep, size_ - done);
        if (Arena::populate(data_ + done, step) != 0) {
            return;
        }
        done += step;
    }
}

}  // namespace bmoe::cache
