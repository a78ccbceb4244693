// The cache as an engine uses it: one thread visits layers and evicts, others fill slices and publish them, others compute
// with what is published. Slots are few, so that nearly every visit evicts.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "cache/expert_cache.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

constexpr uint32_t kLayers = 6, kExperts = 24, kTopK = 4;

Geometry shape() {
    Geometry geometry = test::uniform(kLayers, kExperts, kTopK, {3000, 5000});
    for (uint32_t l = 3; l < kLayers; ++l) geometry.layers[l].slice_bytes = {2000, 9000};
    geometry.block_size = 512;
    return geometry;
}

uint64_t stamp(ExpertId id, size_t slice, size_t word) {
    return (uint64_t{id.layer} << 48 | uint64_t{id.expert} << 32 | slice << 24) + word;
}

// A slice of a pinned slot: to be filled, and then to be checked.
struct Work {
    ExpertId id;
    size_t slice = 0;
    uint64_t bytes = 0;
    Slice *target = nullptr;
    bool fail = false;            // the read is to fail
    uint64_t *pending = nullptr;  // work of the same visit and queue that is not done; the queue's mutex guards it
};

class WorkQueue {
  public:
    void push(const Work &work) {
        const std::scoped_lock lock(mutex_);
        ++*work.pending;
        queue_.push_back(work);
        changed_.notify_all();
    }
    bool pop(Work &work) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !queue_.empty() || closed_; });
        if (queue_.empty()) return false;
        work = queue_.front();
        queue_.pop_front();
        return true;
    }
    void done(const Work &work) {
        const std::scoped_lock lock(mutex_);
        --*work.pending;
        changed_.notify_all();
    }
    void wait_for(const uint64_t &pending) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return pending == 0; });
    }
    void close() {
        const std::scoped_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> queue_;
    bool closed_ = false;
};

void fill(const Work &work) {
    const size_t slack = (work.id.expert * 32u) % 512u;
    std::byte *data = work.target->room + slack;
    for (size_t word = 0; word < work.bytes / 8; ++word) {
        const uint64_t value = stamp(work.id, work.slice, word);
        std::memcpy(data + word * 8, &value, 8);
    }
    work.target->data = data;
    work.target->state.store(work.fail ? SliceState::kFailed : SliceState::kReady, std::memory_order_release);
}

// Number of words that are not what they should be.
uint64_t check(const Work &work) {
    SliceState state = work.target->state.load(std::memory_order_acquire);
    while (state != SliceState::kReady && state != SliceState::kFailed) {
        std::this_thread::yield();
        state = work.target->state.load(std::memory_order_acquire);
    }
    if (state == SliceState::kFailed) return 0;
    uint64_t wrong = 0;
    for (size_t word = 0; word < work.bytes / 8; ++word) {
        uint64_t value = 0;
        std::memcpy(&value, work.target->data + word * 8, 8);
        wrong += value != stamp(work.id, work.slice, word);
    }
    return wrong;
}

class ExpertCacheStress : public ::testing::TestWithParam<PolicyKind> {};

TEST_P(ExpertCacheStress, ContentsAlwaysMatchTheExpert) {
    const Geometry geometry = shape();
    ExpertCache cache(geometry, SlotPool::minimum_budget(geometry) * 3, GetParam());
    WorkQueue reads, checks;
    std::atomic<uint64_t> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            for (Work work; reads.pop(work);) {
                fill(work);
                reads.done(work);
            }
        });
        threads.emplace_back([&] {
            for (Work work; checks.pop(work);) {
                wrong += check(work);
                checks.done(work);
            }
        });
    }

    // A visit stays open, reads and all, while the next one begins: two layers' experts are pinned at a time.
    struct Open {
        std::vector<Slot *> slots;
        uint64_t reads = 0, checks = 0;  // not done
    };
    std::deque<Open> open;
    uint64_t pushed_reads = 0, pushed_checks = 0, discarded = 0, turned_away = 0;
    const auto close = [&] {
        reads.wait_for(open.front().reads);
        checks.wait_for(open.front().checks);
        for (Slot *slot : open.front().slots) {
            bool whole = true;
            for (const Slice &slice : slot->slices)
                whole &= slice.state.load(std::memory_order_acquire) == SliceState::kReady;
            if (whole) {
                cache.unpin(slot);
            } else {
                cache.discard(slot);
                ++discarded;
            }
        }
        open.pop_front();
    };

    std::mt19937 random(11);
    for (uint32_t step = 0; step < 3000; ++step) {
        if (open.size() == 2) close();
        const auto layer = static_cast<uint16_t>(step % kLayers);
        const bool prefill = step % 100 < kLayers;
        const uint32_t tokens = prefill ? 3 : 1;
        std::vector<int32_t> routed;
        for (uint32_t token = 0; token < tokens; ++token) {
            const auto first = static_cast<int32_t>(std::min(random() % kExperts, random() % kExperts));
            for (uint32_t k = 0; k < kTopK; ++k)
                routed.push_back((first + static_cast<int32_t>(k * 5)) % static_cast<int32_t>(kExperts));
        }
        const Phase phase = prefill ? Phase::kPrefill : Phase::kDecode;
        cache.visit({layer, tokens, kTopK, routed, {}, phase});
        std::sort(routed.begin(), routed.end());
        routed.erase(std::unique(routed.begin(), routed.end()), routed.end());

        Open &visit = open.emplace_back();
        std::vector<ExpertId> missing;
        const auto use = [&](Slot *slot, ExpertId id, bool fresh) {
            ASSERT_EQ(slot->id, id);
            visit.slots.push_back(slot);
            for (size_t s = 0; s < slot->slices.size(); ++s) {
                Work work{id,
                          s,
                          geometry.layers[layer].slice_bytes[s],
                          &slot->slices[s],
                          fresh && random() % 200 == 0,
                          &visit.reads};
                if (fresh) {
                    work.target->state.store(SliceState::kReading, std::memory_order_relaxed);
                    reads.push(work);
                    ++pushed_reads;
                }
                work.pending = &visit.checks;
                checks.push(work);
                ++pushed_checks;
            }
        };
        for (int32_t e : routed) {
            const ExpertId id{layer, static_cast<uint16_t>(e)};
            if (Slot *slot = cache.find_and_pin(id)) {
                use(slot, id, false);
            } else {
                missing.push_back(id);
            }
        }
        for (ExpertId id : missing) {
            if (Slot *slot = cache.admit(id, phase)) {
                for (const Open &other : open) {
                    ASSERT_EQ(std::count(other.slots.begin(), other.slots.end(), slot), 0)
                        << "a pinned slot was evicted";
                }
                use(slot, id, true);
            } else {
                ASSERT_TRUE(prefill) << "decode always finds a slot: there are more than two visits pin";
                ++turned_away;
            }
        }
    }
    while (!open.empty()) close();
    reads.close();
    checks.close();
    for (std::thread &thread : threads) thread.join();

    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(cache.counters().evictions, 1000u);
    EXPECT_GT(cache.counters().hits, 500u);
    EXPECT_GT(discarded, 10u);
    EXPECT_EQ(cache.counters().hits + cache.counters().misses, pushed_checks / 2 + turned_away);
    EXPECT_EQ(cache.counters().admissions, pushed_reads / 2);
    EXPECT_EQ(cache.counters().admissions - cache.counters().evictions - discarded, cache.resident_count());
    EXPECT_LE(cache.resident_count(), cache.usage().slots);
}

INSTANTIATE_TEST_SUITE_P(Policies, ExpertCacheStress, ::testing::Values(PolicyKind::kLru, PolicyKind::kReap),
                         [](const auto &kind) { return kind.param == PolicyKind::kLru ? "Lru" : "Reap"; });

}  // namespace
}  // namespace bmoe::cache
