#include "io/read_observer.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "fake_files.h"
#include "file_contents.h"
#include "io/aligned_buffer.h"

namespace bmoe::io {
namespace {

using test::FakeFile;
using test::Gate;

struct Seen {
    uint64_t tag, offset;
    Priority priority;
    uint64_t asked, started, done;
    bool ok, before_done;
};

class Log : public ReadObserver {
  public:
    void on_read(const ReadRecord &record) override {
        const bool before_done = *static_cast<const bool *>(record.job.user) == false;
        seen.push_back({record.job.tag, record.job.offset, record.priority, record.asked_ns, record.started_ns,
                        record.done_ns, record.ok, before_done});
    }
    std::vector<Seen> seen;  // guarded by the pool's lock; read when it is drained
};

// A pool of one lane; reads at offset 0 wait until they are let through, those at 7 fail.
class ReadObserverTest : public ::testing::TestWithParam<ReadEngine> {
  protected:
    void SetUp() override {
        try {
            pool_ = std::make_unique<ReadPool>(1, GetParam());
        } catch (const Error &error) {
            GTEST_SKIP() << error.what();
        }
    }
    void TearDown() override { gate_.open(); }

    ReadJob &job(size_t n, uint64_t offset) {
        ReadJob &job = jobs_[n];
        job.file = &file_;
        job.offset = offset;
        job.length = 10;
        job.dst = memory_.data();
        job.tag = 100 + n;
        job.user = &done_[n];
        job.done = [](ReadJob &done, const ReadStatus &) { *static_cast<bool *>(done.user) = true; };
        return job;
    }
    void submit(ReadJob &job, Priority priority) {
        ReadJob *const one = &job;
        pool_->submit({&one, 1}, priority);
    }

    Gate started_;
    Gate gate_;
    FakeFile file_{test::make_contents(1 << 16), [this](uint64_t offset, uint64_t, std::byte *) {
                       if (offset == 0) {
                           started_.open();
                           gate_.pass();
                       }
                       return offset == 7 ? ReadStatus{"no"} : ReadStatus{};
                   }};
    AlignedBuffer memory_{1 << 14, 4096};
    std::array<ReadJob, 4> jobs_;
    std::array<bool, 4> done_{};
    Log log_;
    std::unique_ptr<ReadPool> pool_;
};

TEST_P(ReadObserverTest, LearnsOfEveryReadThatWasStarted) {
    const uint64_t begin = now_ns();
    pool_->set_observer(&log_);
    submit(job(0, 0), Priority::kDemand);
    started_.pass();
    submit(job(1, 7), Priority::kSpeculative);
    submit(job(2, 20), Priority::kSpeculative);
    submit(job(3, 30), Priority::kSpeculative);
    EXPECT_TRUE(pool_->promote(jobs_[2]));
    EXPECT_TRUE(pool_->cancel(jobs_[3]));
    gate_.open();
    pool_->drain();
    ASSERT_EQ(log_.seen.size(), 3U) << "the cancelled one is no read";
    EXPECT_EQ(log_.seen[0].tag, 100U);
    EXPECT_EQ(log_.seen[1].tag, 102U);
    EXPECT_EQ(log_.seen[1].offset, 20U);
    EXPECT_EQ(log_.seen[1].priority, Priority::kDemand) << "promoted";
    EXPECT_TRUE(log_.seen[1].ok);
    EXPECT_EQ(log_.seen[2].tag, 101U);
    EXPECT_EQ(log_.seen[2].priority, Priority::kSpeculative);
    EXPECT_FALSE(log_.seen[2].ok);
    for (const Seen &seen : log_.seen) {
        EXPECT_LE(begin, seen.asked);
        EXPECT_LE(seen.asked, seen.started);
        EXPECT_LE(seen.started, seen.done);
        EXPECT_LE(seen.done, now_ns());
        EXPECT_TRUE(seen.before_done);
    }
    EXPECT_GE(log_.seen[1].started, log_.seen[0].done) << "one lane";
}

TEST_P(ReadObserverTest, DoesNotKnowWhatCameBeforeIt) {
    submit(job(0, 0), Priority::kDemand);
    started_.pass();
    submit(job(1, 20), Priority::kDemand);
    pool_->set_observer(&log_);
    gate_.open();
    pool_->drain();
    ASSERT_EQ(log_.seen.size(), 2U);
    EXPECT_EQ(log_.seen[0].asked, 0U);
    EXPECT_EQ(log_.seen[0].started, 0U);
    EXPECT_EQ(log_.seen[1].asked, 0U);
    EXPECT_GT(log_.seen[1].started, 0U);
    pool_->set_observer(nullptr);
    submit(job(2, 30), Priority::kDemand);
    pool_->drain();
    EXPECT_EQ(log_.seen.size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Engines, ReadObserverTest, ::testing::Values(ReadEngine::kLanes, ReadEngine::kUring),
                         [](const auto &engine) { return engine.param == ReadEngine::kUring ? "Uring" : "Lanes"; });

}  // namespace
}  // namespace bmoe::io
