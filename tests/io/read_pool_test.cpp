#include "io/read_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include "base/error.h"
#include "fake_files.h"
#include "file_contents.h"
#include "io/aligned_buffer.h"
#include "io/posix_file.h"
#include "tests/support/scratch.h"

namespace bmoe::io {
namespace {

using bmoe::test::Scratch;
using test::FakeFile;
using test::Gate;
using test::make_contents;

// Jobs with memory of their own, and the order in which they completed.
class Jobs {
  public:
    explicit Jobs(const RandomAccessFile &file) : file_(file) {}

    ReadJob &add(uint64_t offset, uint64_t length) {
        Entry &entry = entries_.emplace_back(file_.span(offset, length).length, file_.block_size());
        entry.owner = this;
        entry.job.file = &file_;
        entry.job.offset = offset;
        entry.job.length = length;
        entry.job.dst = entry.memory.data();
        entry.job.done = [](ReadJob &job, const ReadStatus &status) {
            auto &self = *static_cast<Entry *>(job.user);
            const std::lock_guard lock(self.owner->mutex_);
            ++self.times_done;
            self.status = status;
            self.owner->order_.push_back(job.offset);
        };
        entry.job.user = &entry;
        return entry.job;
    }

    const ReadStatus &status(const ReadJob &job) const { return static_cast<Entry *>(job.user)->status; }
    int times_done(const ReadJob &job) const { return static_cast<Entry *>(job.user)->times_done; }
    bool holds(const ReadJob &job, const std::vector<std::byte> &contents) const {
        return std::memcmp(job.dst + file_.span(job.offset, job.length).lead, contents.data() + job.offset,
                           job.length) == 0;
    }

    std::vector<uint64_t> order() const {  // offsets
        const std::lock_guard lock(mutex_);
        return order_;
    }

  private:
    struct Entry {
        Entry(size_t size, size_t alignment) : memory(size, alignment) {}
        ReadJob job;
        AlignedBuffer memory;
        Jobs *owner = nullptr;
        ReadStatus status;
        int times_done = 0;
    };

    const RandomAccessFile &file_;
    std::deque<Entry> entries_;
    mutable std::mutex mutex_;
    std::vector<uint64_t> order_;
};

// One engine in each suite. Skips where the system has no io_uring.
class EngineTest : public ::testing::TestWithParam<ReadEngine> {
  protected:
    void SetUp() override {
        if (GetParam() != ReadEngine::kUring) return;
        try {
            const ReadPool pool(1, ReadEngine::kUring);
        } catch (const Error &error) {
            GTEST_SKIP() << error.what();
        }
    }
};

std::string engine_name(const ::testing::TestParamInfo<ReadEngine> &info) {
    return info.param == ReadEngine::kUring ? "Uring" : "Lanes";
}

const auto kBothEngines = ::testing::Values(ReadEngine::kLanes, ReadEngine::kUring);

void submit(ReadPool &pool, std::vector<ReadJob *> jobs, Priority priority) { pool.submit(jobs, priority); }

// A pool of one lane that is held inside the read of a blocking job, so that all else waits.
class HeldPoolTest : public EngineTest {
  protected:
    static constexpr uint64_t kBlockerOffset = 0;

    void SetUp() override {
        EngineTest::SetUp();
        if (IsSkipped()) return;
        held_.emplace(1, GetParam());
        submit(pool(), {&blocker_}, Priority::kSpeculative);
        started_.pass();
    }
    void TearDown() override { gate_.open(); }

    ReadPool &pool() { return *held_; }
    void release_and_drain() {
        gate_.open();
        pool().drain();
    }

    Gate started_;
    Gate gate_;
    std::vector<std::byte> contents_ = make_contents(1 << 16);
    FakeFile file_{contents_, [this](uint64_t offset, uint64_t, std::byte *) {
                       if (offset == kBlockerOffset) {
                           started_.open();
                           gate_.pass();
                       }
                       return ReadStatus{};
                   }};
    Jobs jobs_{file_};
    ReadJob &blocker_ = jobs_.add(kBlockerOffset, 1);
    std::optional<ReadPool> held_;
};

using Order = std::vector<uint64_t>;

TEST_P(HeldPoolTest, DemandGoesFirstAndEachPriorityIsFirstInFirstOut) {
    ReadJob &s1 = jobs_.add(1, 10);
    ReadJob &s2 = jobs_.add(2, 10);
    ReadJob &s3 = jobs_.add(3, 10);
    ReadJob &d1 = jobs_.add(4, 10);
    ReadJob &d2 = jobs_.add(5, 10);
    ReadJob &d3 = jobs_.add(6, 10);
    submit(pool(), {&s1, &s2}, Priority::kSpeculative);
    submit(pool(), {&d1, &d2}, Priority::kDemand);
    submit(pool(), {&s3}, Priority::kSpeculative);
    submit(pool(), {&d3}, Priority::kDemand);
    release_and_drain();
    EXPECT_EQ(jobs_.order(), (Order{0, 4, 5, 6, 1, 2, 3}));
}

TEST_P(HeldPoolTest, GuessesComeLast) {
    ReadJob &guess = jobs_.add(1, 10);
    ReadJob &promoted = jobs_.add(2, 10);
    ReadJob &cancelled = jobs_.add(3, 10);
    ReadJob &speculative = jobs_.add(4, 10);
    ReadJob &demand = jobs_.add(5, 10);
    submit(pool(), {&guess, &promoted, &cancelled}, Priority::kGuess);
    submit(pool(), {&speculative}, Priority::kSpeculative);
    submit(pool(), {&demand}, Priority::kDemand);
    EXPECT_TRUE(pool().promote(promoted));
    EXPECT_TRUE(pool().cancel(cancelled));
    release_and_drain();
    EXPECT_EQ(jobs_.order(), (Order{0, 5, 2, 4, 1}));
    EXPECT_EQ(pool().counters().speculative_bytes, 1u + 10 + 10);
}

TEST_P(HeldPoolTest, CancelTakesWaitingJobsOutOfEitherQueue) {
    std::vector<ReadJob *> jobs;
    for (uint64_t i = 1; i <= 6; ++i) jobs.push_back(&jobs_.add(i, 10));
    submit(pool(), {jobs[0], jobs[1], jobs[2]}, Priority::kSpeculative);
    submit(pool(), {jobs[3], jobs[4], jobs[5]}, Priority::kDemand);
    EXPECT_TRUE(pool().cancel(*jobs[0]));  // first
    EXPECT_TRUE(pool().cancel(*jobs[4]));  // in the middle
    EXPECT_TRUE(pool().cancel(*jobs[2]));  // last
    EXPECT_FALSE(pool().cancel(*jobs[2])) << "cancelled already";
    release_and_drain();
    EXPECT_EQ(jobs_.order(), (Order{0, 4, 6, 2}));
    EXPECT_EQ(jobs_.times_done(*jobs[0]), 0);
}

TEST_P(HeldPoolTest, CancelRefusesJobsThatRunOrAreDone) {
    EXPECT_FALSE(pool().cancel(blocker_));
    release_and_drain();
    EXPECT_FALSE(pool().cancel(blocker_));
    EXPECT_EQ(jobs_.times_done(blocker_), 1);
}

TEST_P(HeldPoolTest, CancelledJobCanBeSubmittedAgain) {
    ReadJob &job = jobs_.add(1, 10);
    submit(pool(), {&job}, Priority::kSpeculative);
    EXPECT_TRUE(pool().cancel(job));
    submit(pool(), {&job}, Priority::kDemand);
    release_and_drain();
    EXPECT_EQ(jobs_.times_done(job), 1);
    submit(pool(), {&job}, Priority::kDemand);
    pool().drain();
    EXPECT_EQ(jobs_.times_done(job), 2) << "a job that is done can be submitted again too";
}

TEST_P(HeldPoolTest, PromoteMovesToTheEndOfTheDemandQueue) {
    ReadJob &s1 = jobs_.add(1, 10);
    ReadJob &s2 = jobs_.add(2, 10);
    ReadJob &s3 = jobs_.add(3, 10);
    ReadJob &d1 = jobs_.add(4, 10);
    ReadJob &d2 = jobs_.add(5, 10);
    submit(pool(), {&s1, &s2, &s3}, Priority::kSpeculative);
    submit(pool(), {&d1}, Priority::kDemand);
    EXPECT_TRUE(pool().promote(s2));
    submit(pool(), {&d2}, Priority::kDemand);
    EXPECT_TRUE(pool().promote(d1)) << "it waits";
    EXPECT_TRUE(pool().promote(s2)) << "it waits, promoted already";
    release_and_drain();
    EXPECT_EQ(jobs_.order(), (Order{0, 4, 2, 5, 1, 3}));
    EXPECT_EQ(pool().counters().speculative_bytes, 1u + 10 + 10) << "a promoted job is read on demand";
}

TEST_P(HeldPoolTest, PromoteRefusesJobsThatDoNotWait) {
    ReadJob &cancelled = jobs_.add(1, 10);
    submit(pool(), {&cancelled}, Priority::kSpeculative);
    EXPECT_TRUE(pool().cancel(cancelled));
    EXPECT_FALSE(pool().promote(cancelled));
    EXPECT_FALSE(pool().promote(blocker_)) << "it runs";
    release_and_drain();
    EXPECT_FALSE(pool().promote(blocker_)) << "it is done";
    EXPECT_EQ(jobs_.order(), (Order{0}));
}

TEST_P(HeldPoolTest, PromotedJobCanBeCancelled) {
    ReadJob &job = jobs_.add(1, 10);
    submit(pool(), {&job}, Priority::kSpeculative);
    EXPECT_TRUE(pool().promote(job));
    EXPECT_TRUE(pool().cancel(job));
    release_and_drain();
    EXPECT_EQ(jobs_.order(), (Order{0}));
}

TEST_P(HeldPoolTest, CountsReadsInFlight) {
    const ReadCounters before = pool().counters();
    while (pool().counters().active_ns == before.active_ns) std::this_thread::yield();
    EXPECT_EQ(pool().counters().reads, 0u) << "not finished";
    release_and_drain();
    const ReadCounters after = pool().counters();
    EXPECT_EQ(after.reads, 1u);
    EXPECT_EQ(after.bytes, 1u);
    EXPECT_EQ(after.busy_ns, after.active_ns) << "one lane";
    EXPECT_EQ(pool().counters().active_ns, after.active_ns) << "nothing is in flight";
}

INSTANTIATE_TEST_SUITE_P(Engines, HeldPoolTest, kBothEngines, engine_name);

using ReadPoolTest = EngineTest;

TEST_P(ReadPoolTest, DrainOfAnIdlePoolReturns) {
    ReadPool pool(3, GetParam());
    EXPECT_EQ(pool.lanes(), 3);
    pool.drain();
    pool.submit({}, Priority::kDemand);
    pool.drain();
    EXPECT_EQ(pool.counters().reads, 0u);
}

TEST_P(ReadPoolTest, DrainReturnsWhenTheLastWaitingJobIsCancelled) {
    const FakeFile file(make_contents(4096));
    Jobs jobs(file);
    ReadPool pool(1, GetParam());
    for (int i = 0; i < 200; ++i) {
        ReadJob &job = jobs.add(0, 100);
        submit(pool, {&job}, Priority::kDemand);
        std::thread waiter([&pool] { pool.drain(); });
        const bool cancelled = pool.cancel(job);
        waiter.join();
        EXPECT_EQ(jobs.times_done(job), cancelled ? 0 : 1);
    }
}

TEST_P(ReadPoolTest, RefusesLaneCountsOutOfRange) {
    for (const int lanes : {-1, 0, 65}) EXPECT_THROW(ReadPool pool(lanes, GetParam()), Error) << lanes;
    ReadPool most(64, GetParam());
    EXPECT_EQ(most.lanes(), 64);
}

// Of lanes only: an io_uring performs these files' reads one by one.
// Every read waits until three are inside of one: with fewer lanes at work these two would not end. Repeated, so that the
// lanes sleep when jobs come.
class LanesTogetherTest : public ::testing::Test {
  protected:
    static constexpr int kLanes = 3;
    static constexpr int kRounds = 200;

    std::barrier<> together_{kLanes};
    FakeFile file_{make_contents(4096), [this](uint64_t, uint64_t, std::byte *) {
                       together_.arrive_and_wait();
                       return ReadStatus{};
                   }};
    Jobs jobs_{file_};
    ReadPool pool_{kLanes, ReadEngine::kLanes};
};

TEST_F(LanesTogetherTest, ReadJobsThatWereSubmittedTogether) {
    for (int round = 0; round < kRounds; ++round) {
        submit(pool_, {&jobs_.add(1, 1), &jobs_.add(2, 1), &jobs_.add(3, 1)}, Priority::kDemand);
        pool_.drain();
    }
    const ReadCounters counters = pool_.counters();
    EXPECT_EQ(counters.reads, 3u * kRounds);
    EXPECT_GT(counters.busy_ns, counters.active_ns);
    EXPECT_LE(counters.busy_ns, 3 * counters.active_ns);
}

TEST_F(LanesTogetherTest, ReadJobsThatWereSubmittedOneByOne) {
    for (int round = 0; round < kRounds; ++round) {
        for (uint64_t i = 0; i < kLanes; ++i) submit(pool_, {&jobs_.add(i, 1)}, Priority::kSpeculative);
        pool_.drain();
    }
    EXPECT_EQ(pool_.counters().speculative_bytes, 3u * kRounds);
}

// Of lanes only, too.
TEST(LanesTest, GuessesInFlightLeaveLanesToOthers) {
    constexpr uint64_t kGuesses = 9;
    Gate gate;
    std::atomic<int> guessing = 0;
    std::atomic<int> most = 0;
    const FakeFile file(make_contents(1 << 16), [&](uint64_t offset, uint64_t, std::byte *) {
        if (offset < kGuesses) {
            const int now = ++guessing;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            gate.pass();
            --guessing;
        }
        return ReadStatus{};
    });
    Jobs jobs(file);
    ReadPool pool(ReadPool::kMostGuesses + 1, ReadEngine::kLanes);
    for (uint64_t i = 0; i < kGuesses; ++i) submit(pool, {&jobs.add(i, 1)}, Priority::kGuess);
    ReadJob &demand = jobs.add(kGuesses, 1);
    submit(pool, {&demand}, Priority::kDemand);
    while (jobs.order().empty()) std::this_thread::yield();  // ends although no guess does
    EXPECT_EQ(jobs.order(), (Order{kGuesses}));
    gate.open();
    pool.drain();
    EXPECT_EQ(jobs.order().size(), kGuesses + 1);
    EXPECT_EQ(most, ReadPool::kMostGuesses);
}

TEST_P(ReadPoolTest, PassesErrorsOnAndGoesOn) {
    const auto contents = make_contents(1 << 16);
    const FakeFile file(contents, [](uint64_t offset, uint64_t, std::byte *) {
        if (offset % 3 == 1) return ReadStatus{"fake.gguf: no luck at offset " + std::to_string(offset)};
        if (offset % 3 == 2) throw std::runtime_error("thrown");
        return ReadStatus{};
    });
    Jobs jobs(file);
    std::vector<ReadJob *> list;
    for (uint64_t i = 0; i < 300; ++i) list.push_back(&jobs.add(i, 5000));
    ReadPool pool(4, GetParam());
    submit(pool, list, Priority::kDemand);
    pool.drain();
    for (ReadJob *job : list) {
        ASSERT_EQ(jobs.times_done(*job), 1);
        const std::string &error = jobs.status(*job).error;
        if (job->offset % 3 == 0) {
            EXPECT_EQ(error, "");
            EXPECT_TRUE(jobs.holds(*job, contents));
        } else if (job->offset % 3 == 1) {
            EXPECT_EQ(error, "fake.gguf: no luck at offset " + std::to_string(job->offset));
        } else {
            EXPECT_EQ(error, "fake.gguf: cannot read 5000 bytes at offset " + std::to_string(job->offset) + ": thrown");
        }
    }
    EXPECT_EQ(pool.counters().reads, 300u);
    EXPECT_EQ(pool.counters().bytes, 100u * 5000) << "of the reads that succeeded";
}

TEST_P(ReadPoolTest, DestructionCompletesEveryJobOnce) {
    const auto contents = make_contents(1 << 16);
    // Slow, so that many jobs wait when the pool goes.
    const FakeFile file(contents, [](uint64_t, uint64_t, std::byte *) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return ReadStatus{};
    });
    Jobs jobs(file);
    std::vector<ReadJob *> list;
    for (uint64_t i = 0; i < 4000; ++i) list.push_back(&jobs.add(i, 10));
    {
        ReadPool pool(2, GetParam());
        submit(pool, {list.begin(), list.begin() + 2000}, Priority::kDemand);
        submit(pool, {list.begin() + 2000, list.end()}, Priority::kSpeculative);
    }
    for (ReadJob *job : list) {
        ASSERT_EQ(jobs.times_done(*job), 1);
        const std::string &error = jobs.status(*job).error;
        if (error.empty()) {
            EXPECT_TRUE(jobs.holds(*job, contents));
        } else {
            EXPECT_EQ(error, "fake.gguf: 10 bytes at offset " + std::to_string(job->offset) +
                                 " were not read: the read pool was shut down before the read started");
        }
    }
    EXPECT_FALSE(jobs.status(*list.back()).ok());
}

// Many jobs of random sizes on a real file, from two threads, some of them promoted or cancelled while lanes take them.
TEST_P(ReadPoolTest, ReadsTenThousandJobsOfRandomSizes) {
    const Scratch dir;
    const auto contents = make_contents((4 << 20) + 777);
    test::write_file(dir.file("model.gguf"), contents);
    const OpenedFile opened = open_posix_file(dir.file("model.gguf"), DirectIo::kVerified);
    const RandomAccessFile &file = *opened.file;
    std::atomic<uint64_t> completed{0};
    std::atomic<uint64_t> completed_bytes{0};
    std::atomic<uint64_t> cancelled{0};
    ReadPool pool(4, GetParam());

    constexpr int kBatches = 50;
    constexpr int kBatch = 100;
    const auto work = [&](uint64_t seed) {
        std::mt19937_64 random(seed);
        for (int batch = 0; batch < kBatches; ++batch) {
            Jobs jobs(file);
            std::vector<ReadJob *> list;
            for (int i = 0; i < kBatch; ++i) {
                const uint64_t offset = random() % contents.size();
                const uint64_t length = 1 + random() % std::min<uint64_t>(contents.size() - offset, 40000);
                list.push_back(&jobs.add(offset, length));
            }
            const auto middle = list.begin() + static_cast<std::ptrdiff_t>(random() % kBatch);
            submit(pool, {list.begin(), middle}, Priority::kSpeculative);
            submit(pool, {middle, list.end()}, Priority::kDemand);
            std::vector<bool> is_cancelled(kBatch, false);
            for (size_t i = 0; i < kBatch; i += 1 + random() % 8) {
                if (random() % 2) pool.promote(*list[i]);
                if (random() % 4 == 0) is_cancelled[i] = pool.cancel(*list[i]);
            }
            pool.drain();
            for (size_t i = 0; i < kBatch; ++i) {
                ASSERT_EQ(jobs.times_done(*list[i]), is_cancelled[i] ? 0 : 1);
                if (is_cancelled[i]) {
                    ++cancelled;
                    continue;
                }
                ++completed;
                completed_bytes += list[i]->length;
                ASSERT_TRUE(jobs.status(*list[i]).ok()) << jobs.status(*list[i]).error;
                ASSERT_TRUE(jobs.holds(*list[i], contents)) << "offset " << list[i]->offset;
            }
        }
    };
    std::thread other(work, 1);
    work(2);
    other.join();
    EXPECT_EQ(completed + cancelled, 2u * kBatches * kBatch);
    const ReadCounters counters = pool.counters();
    EXPECT_EQ(counters.reads, completed);
    EXPECT_EQ(counters.bytes, completed_bytes);
    EXPECT_LE(counters.speculative_bytes, counters.bytes);
    EXPECT_GE(counters.busy_ns, counters.active_ns);
}

INSTANTIATE_TEST_SUITE_P(Engines, ReadPoolTest, kBothEngines, engine_name);

}  // namespace
}  // namespace bmoe::io
