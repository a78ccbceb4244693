#include "backend/cache_warmer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

#include "cache/expert_index.h"
#include "cache/slot_pool.h"
#include "ggml-cpu.h"
#include "tests/backend/small_experts.h"

namespace bmoe::backend::test {
namespace {

// Calls `hook` before each read; an error of the hook is the read's.
class HookedFile : public io::RandomAccessFile {
  public:
    using Hook = std::function<std::string(uint64_t offset)>;
    HookedFile(std::unique_ptr<io::RandomAccessFile> file, const Hook &hook) : file_(std::move(file)), hook_(hook) {}
    const std::string &path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    uint32_t block_size() const override { return file_->block_size(); }
    bool is_direct() const override { return file_->is_direct(); }
    io::ReadStatus read(uint64_t offset, uint64_t length, std::byte *dst) const override {
        if (std::string error = hook_(offset); !error.empty()) {
            return {error};
        }
        return file_->read(offset, length, dst);
    }

  private:
    std::unique_ptr<io::RandomAccessFile> file_;
    const Hook &hook_;
};

class CacheWarmerTest : public testing::Test {
  protected:
    CacheWarmerTest() {
        executor_.set_threads(1);
        frequencies_.resize(index_.count());
        // All different, in no order.
        for (size_t i = 0; i < frequencies_.size(); ++i) {
            frequencies_[i] = static_cast<float>(i * 7 % frequencies_.size() + 1) / 100;
        }
    }

    ExpertStore &store() { return experts_.store(); }
    const cache::Geometry &geometry() { return store().geometry(); }
    uint64_t expert_bytes() { return geometry().bytes() / index_.count(); }
    void set_cache(uint64_t slots) {
        store().set_cache(cache::SlotPool::whole_budget(geometry()) * slots / index_.count(), cache::PolicyKind::kReap);
    }
    void start() {
        store().start_warming(frequencies_, [this](const WarmReport &report) {
            report_ = report;
            ++finished_;
        });
    }
    bool resident(size_t i) {
        return store().cache()->resident(
            {static_cast<uint16_t>(i / index_.experts(0)), static_cast<uint16_t>(i % index_.experts(0))});
    }
    void expect_right_visits(int n) {
        for (int i = 0; i < n; ++i) {
            const auto visit = experts_.visit(executor_, i % experts_.shape().n_layers, i % 4 == 3 ? 9 : 1, random_);
            ASSERT_EQ(visit.status, GGML_STATUS_SUCCESS) << store().take_error().value_or("");
            ASSERT_EQ(visit.streamed.size(), visit.resident.size());
            ASSERT_EQ(std::memcmp(visit.streamed.data(), visit.resident.data(), visit.streamed.size() * sizeof(float)),
                      0);
        }
    }

    HookedFile::Hook hook_ = [](uint64_t) { return std::string(); };
    SmallExperts experts_{
        {}, {.io_threads = 2}, [this](auto file) { return std::make_unique<HookedFile>(std::move(file), hook_); }};
    cache::ExpertIndex index_{experts_.store().geometry()};
    SplitExecutor executor_;
    std::mt19937 random_{23};
    std::vector<float> frequencies_;
    WarmReport report_;
    int finished_ = 0;
};

TEST_F(CacheWarmerTest, ReadsTheMostUsedIntoTheFreeSlots) {
    set_cache(10);
    start();
    store().pool().drain();
    store().finish_warming();
    EXPECT_EQ(finished_, 1);
    EXPECT_EQ(report_.experts, 10U);
    EXPECT_EQ(report_.bytes, 10 * expert_bytes());
    EXPECT_EQ(report_.failed, 0U);
    EXPECT_EQ(store().warmed_bytes(), report_.bytes);
    EXPECT_EQ(store().counters().reads.bytes, report_.bytes);
    for (size_t i = 0; i < frequencies_.size(); ++i) {
        EXPECT_EQ(resident(i), frequencies_[i] > 0.145F) << i;  // 24 experts, the ten from 0.15 on
    }
    expect_right_visits(30);
    EXPECT_EQ(finished_, 1);
}

TEST_F(CacheWarmerTest, ReadsNothingThatWasNeverUsed) {
    std::fill(frequencies_.begin(), frequencies_.end(), 0.0F);
    frequencies_[5] = 0.01F;
    set_cache(20);
    start();
    store().pool().drain();
    store().finish_warming();
    EXPECT_EQ(report_.experts, 1U);
    EXPECT_TRUE(resident(5));
}

// Whenever the first visit comes: what has been read is used, what has not is read once, and no slot is lost.
TEST_F(CacheWarmerTest, TheFirstVisitEndsItAtAnyMoment) {
    for (uint32_t moment = 0; moment < 73; moment += 8) {  // of 72 reads
        std::atomic<uint32_t> reads{0};
        std::mutex mutex;
        std::map<uint64_t, int> reads_at;
        hook_ = [&](uint64_t offset) {
            {
                const std::scoped_lock lock(mutex);
                ++reads_at[offset];
            }
            reads.fetch_add(1);
            reads.notify_all();
            return std::string();
        };
        set_cache(index_.count());
        start();
        for (uint32_t seen = reads.load(); seen < moment; seen = reads.load()) {
            reads.wait(seen);
        }
        expect_right_visits(12);
        store().pool().drain();
        // Reads are taken in order, so one expert at most was left with a part of its three slices.
        EXPECT_LE(std::count_if(reads_at.begin(), reads_at.end(), [](const auto &at) { return at.second > 1; }), 2);
        EXPECT_EQ(store().cache()->counters().evictions, 0U) << "the whole model has slots";
        hook_ = [](uint64_t) { return std::string(); };
    }
}

TEST_F(CacheWarmerTest, AFailedReadIsNotAnErrorOfTheRun) {
    std::atomic<bool> failing{true};
    std::atomic<int> reads{0};
    hook_ = [&](uint64_t) { return std::string(failing && reads++ % 9 == 4 ? "injected failure" : ""); };
    set_cache(index_.count());
    start();
    store().pool().drain();
    failing = false;
    expect_right_visits(30);
    EXPECT_EQ(finished_, 1);
    EXPECT_EQ(report_.failed, 8U);  // of 72
    EXPECT_LT(report_.experts, index_.count());
    EXPECT_GE(report_.experts, index_.count() - 8);
    EXPECT_NE(report_.error.find("injected failure"), std::string::npos) << report_.error;
    EXPECT_NE(report_.error.find("_exps.weight"), std::string::npos) << report_.error;
    EXPECT_FALSE(store().take_error().has_value());
    store().pool().drain();  // lanes may be in hook_
}

TEST_F(CacheWarmerTest, AnotherCacheEndsIt) {
    for (int i = 0; i < 20; ++i) {
        set_cache(index_.count());
        start();
    }
    set_cache(8);
    EXPECT_EQ(store().cache()->resident_count(), 0U);
    expect_right_visits(10);
    EXPECT_EQ(finished_, 0);
}

TEST_F(CacheWarmerTest, MayBeLeftUnfinished) {
    set_cache(index_.count());
    start();
}

}  // namespace
}  // namespace bmoe::backend::test
