#include "backend/split_executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "cache/slot_pool.h"
#include "tests/backend/small_experts.h"
#include "tests/backend/team.h"

namespace bmoe::backend::test {
namespace {

bool same_bits(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Passes reads on, some of them late and so, by lanes, out of order, some not at all.
class UnreliableFile : public io::RandomAccessFile {
  public:
    UnreliableFile(std::unique_ptr<io::RandomAccessFile> file, std::atomic<int> &failures_left)
        : file_(std::move(file)), failures_left_(failures_left) {}
    const std::string &path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    uint32_t block_size() const override { return file_->block_size(); }
    bool is_direct() const override { return file_->is_direct(); }
    io::ReadStatus read(uint64_t offset, uint64_t length, std::byte *dst) const override {
        const uint32_t n = reads_.fetch_add(1);
        if (n * 2654435761U % 7 == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(200 + n % 5 * 100));
        }
        if (n % 3 == 1 && failures_left_.load() > 0 && failures_left_.fetch_sub(1) > 0) {
            return {path() + ": injected failure"};
        }
        return file_->read(offset, length, dst);
    }

  private:
    std::unique_ptr<io::RandomAccessFile> file_;
    std::atomic<int> &failures_left_;
    mutable std::atomic<uint32_t> reads_{0};
};

struct Stress {
    int threads;
    int lanes;
    bool overlap;
    ggml_type type;
    bool cached;
};

class SplitExecutorStress : public testing::TestWithParam<Stress> {};

// Small caches evict all the time; ubatches of one and of many tokens alternate; reads come late and out of order.
TEST_P(SplitExecutorStress, EqualsResidentUnderEvictionAndLateReads) {
    std::atomic<int> failures{0};
    const WrapFile unreliable = [&](auto file) { return std::make_unique<UnreliableFile>(std::move(file), failures); };
    Shape shape;
    shape.type = GetParam().type;
    SmallExperts experts(
        shape, {.io_threads = GetParam().lanes, .io_engine = io::ReadEngine::kLanes, .overlap = GetParam().overlap},
        unreliable);
    experts.store().set_cache(GetParam().cached ? cache::SlotPool::minimum_budget(experts.store().geometry()) * 2 : 0,
                              cache::PolicyKind::kReap);
    Team team(GetParam().threads);
    std::mt19937 random(3);
    for (int i = 0; i < 60; ++i) {
        const uint32_t tokens = i % 3 == 2 ? 17 : 1;
        const auto visit = experts.visit(team.executor(), i % shape.n_layers, tokens, random);
        ASSERT_EQ(visit.status, GGML_STATUS_SUCCESS) << i;
        ASSERT_TRUE(same_bits(visit.streamed, visit.resident)) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Teams, SplitExecutorStress,
                         testing::Values(Stress{1, 1, true, GGML_TYPE_Q8_0, true},
                                         Stress{2, 4, true, GGML_TYPE_F32, true},
                                         Stress{3, 4, true, GGML_TYPE_Q8_0, false},
                                         Stress{4, 2, false, GGML_TYPE_Q4_0, true},
                                         Stress{2, 4, true, GGML_TYPE_F16, false}));

// Layers one after the other as in a decode; guesses, most of them wrong, are dropped, adopted, late and unreadable.
TEST(SplitExecutor, EqualsResidentWhileReadingAhead) {
    std::atomic<int> failures{0};
    const WrapFile unreliable = [&](auto file) { return std::make_unique<UnreliableFile>(std::move(file), failures); };
    Shape shape;
    shape.n_expert = 12;
    SmallExperts experts(shape, {.io_threads = 2, .io_engine = io::ReadEngine::kLanes, .lookahead = 3}, unreliable);
    experts.store().set_cache(cache::SlotPool::minimum_budget(experts.store().geometry()) * 5,
                              cache::PolicyKind::kReap);
    Team team(2);
    std::mt19937 random(29);
    int failed = 0;
    for (int i = 0; i < 300; ++i) {
        failures = i % 20 == 7 ? 2 : 0;
        const auto visit = experts.visit(team.executor(), i % shape.n_layers, i % 50 == 49 ? 9 : 1, random);
        const auto error = experts.store().take_error();
        if (visit.status == GGML_STATUS_SUCCESS) {
            EXPECT_FALSE(error.has_value()) << *error;
            ASSERT_TRUE(same_bits(visit.streamed, visit.resident)) << i;
        } else {
            ++failed;
            ASSERT_TRUE(error.has_value());
        }
    }
    const LookaheadCounters counters = experts.store().counters().lookahead;
    EXPECT_GT(counters.guesses, 100U);
    EXPECT_GT(counters.adopted, 5U);
    EXPECT_GT(counters.wasted_bytes, 0U);
    EXPECT_GT(counters.early_bytes, 0U);
    EXPECT_LT(failed, 20);
}

// Layer after layer of prompts, whose next layer is read ahead: into free slots, through staging, both; selected then or not,
// late and unreadable; between them single tokens, layers in several splits, and prompts that are broken off.
TEST(SplitExecutor, EqualsResidentWhileReadingAheadOfAPrompt) {
    uint64_t read_ahead = 0;
    for (const int slots : {0, 1, 3, 100}) {
        std::atomic<int> failures{0};
        const WrapFile unreliable = [&](auto file) {
            return std::make_unique<UnreliableFile>(std::move(file), failures);
        };
        Shape shape;
        shape.n_expert = 12;
        shape.n_layers = 5;
        SmallExperts experts(shape, {.io_threads = 2, .io_engine = io::ReadEngine::kLanes, .lookahead = 3}, unreliable);
        const cache::Geometry &geometry = experts.store().geometry();
        experts.store().set_cache(
            std::min(cache::SlotPool::minimum_budget(geometry) * slots, cache::SlotPool::whole_budget(geometry)),
            cache::PolicyKind::kReap);
        Team team(2);
        std::mt19937 random(31);
        int failed = 0;
        for (int prompt = 0; prompt < 40; ++prompt) {
            const uint32_t layers = prompt % 4 == 3 ? 2 : shape.n_layers;
            const uint32_t tokens = prompt % 5 == 4 ? 1 : 2 + prompt % 7;
            for (uint32_t layer = 0; layer < layers; ++layer) {
                failures = prompt % 6 == 5 && layer == 1 ? 2 : 0;
                experts.in_splits = prompt % 3 == 2 && layer % 2 == 1;  // takes over what was read in another order
                const auto visit = experts.visit(team.executor(), layer, tokens, random);
                const auto error = experts.store().take_error();
                if (visit.status == GGML_STATUS_SUCCESS) {
                    EXPECT_FALSE(error.has_value()) << *error;
                    ASSERT_TRUE(same_bits(visit.streamed, visit.resident)) << slots << " " << prompt << " " << layer;
                } else {
                    ++failed;
                    ASSERT_TRUE(error.has_value());
                }
            }
        }
        read_ahead += experts.store().counters().read_ahead;
        EXPECT_LT(failed, 20) << slots;
    }
    EXPECT_GT(read_ahead, 0U);
}

TEST(SplitExecutor, AFailedReadEndsTheVisitAndTheNextOneIsRight) {
    std::atomic<int> failures{0};
    const WrapFile unreliable = [&](auto file) { return std::make_unique<UnreliableFile>(std::move(file), failures); };
    SmallExperts experts({}, {.io_threads = 2, .io_engine = io::ReadEngine::kLanes}, unreliable);
    experts.store().set_cache(cache::SlotPool::minimum_budget(experts.store().geometry()) * 2, cache::PolicyKind::kLru);
    Team team(2);
    std::mt19937 random(5);
    int failed = 0;
    for (int i = 0; i < 40; ++i) {
        failures = i % 4 == 0 ? 1 : 0;
        const auto visit = experts.visit(team.executor(), i % 3, i % 2 == 0 ? 9 : 1, random);
        const auto error = experts.store().take_error();
        if (visit.status == GGML_STATUS_SUCCESS) {
            EXPECT_FALSE(error.has_value()) << *error;
            ASSERT_TRUE(same_bits(visit.streamed, visit.resident)) << i;
        } else {
            ++failed;
            ASSERT_TRUE(error.has_value());
            EXPECT_NE(error->find("injected failure"), std::string::npos) << *error;
            EXPECT_NE(error->find("_exps.weight"), std::string::npos) << *error;
        }
    }
    EXPECT_GT(failed, 3);
}

// A computation that is broken off while reads are under way, and these fail later: what follows is right, and hears nothing of it.
TEST(SplitExecutor, WhatFailsAfterAnInterruptIsForgotten) {
    std::atomic<int> failures{0};
    const WrapFile unreliable = [&](auto file) { return std::make_unique<UnreliableFile>(std::move(file), failures); };
    SmallExperts experts({}, {.io_threads = 2, .io_engine = io::ReadEngine::kLanes}, unreliable);
    experts.store().set_cache(cache::SlotPool::minimum_budget(experts.store().geometry()), cache::PolicyKind::kReap);
    Team team(2);
    std::atomic<bool> aborting{false};
    team.executor().set_abort_callback([](void *flag) { return static_cast<std::atomic<bool> *>(flag)->load(); },
                                       &aborting);
    std::mt19937 random(37);
    int interrupted = 0;
    for (int i = 0; i < 60; ++i) {
        aborting = i % 2 == 0;
        experts.in_splits = i % 4 == 2;
        failures = aborting ? 3 : 0;
        const auto visit = experts.visit(team.executor(), i % 3, i % 5 == 0 ? 9 : 1, random);
        failures = 0;
        if (visit.status == GGML_STATUS_SUCCESS) {
            EXPECT_FALSE(experts.store().take_error().has_value());
            ASSERT_TRUE(same_bits(visit.streamed, visit.resident)) << i;
        } else {
            ++interrupted;
            ASSERT_TRUE(aborting) << i;
            experts.store().give_up_visit();
        }
    }
    EXPECT_GT(interrupted, 20);
}

TEST(SplitExecutor, ReadsEachExpertOnceForAUbatch) {
    Shape shape;
    shape.n_layers = 1;
    SmallExperts experts(shape, {.io_threads = 2});
    for (const bool cached : {false, true}) {
        const cache::Geometry &geometry = experts.store().geometry();
        experts.store().set_cache(cached ? cache::SlotPool::minimum_budget(geometry) : 0, cache::PolicyKind::kReap);
        Team team(2);
        std::mt19937 random(11);
        const StoreCounters before = experts.store().counters();
        experts.visit(team.executor(), 0, 64, random);  // 64 tokens x 2 of 8 experts: all of them
        const StoreCounters used = experts.store().counters().since(before);
        EXPECT_EQ(used.reads.reads, 3 * shape.n_expert);
        EXPECT_EQ(used.reads.bytes, geometry.bytes());
    }
}

TEST(SplitExecutor, AFullCacheReadsNothing) {
    SmallExperts experts({}, {.io_threads = 2});
    experts.store().set_cache(cache::SlotPool::whole_budget(experts.store().geometry()), cache::PolicyKind::kReap);
    Team team(2);
    std::mt19937 random(13);
    for (uint32_t layer = 0; layer < 3; ++layer) {
        experts.visit(team.executor(), layer, 64, random);
    }
    const StoreCounters before = experts.store().counters();
    for (uint32_t layer = 0; layer < 3; ++layer) {
        experts.visit(team.executor(), layer, 1, random);
    }
    EXPECT_EQ(experts.store().counters().since(before).reads.reads, 0U);
}

}  // namespace
}  // namespace bmoe::backend::test
