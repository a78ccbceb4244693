// What is the io_uring's own: reads of real files in steps, and what the kernel may answer to each. The preloaded fault shim
// does not reach reads that the kernel performs itself, so a file in between changes their results.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <mutex>

#include "base/error.h"
#include "fake_files.h"
#include "file_contents.h"
#include "io/aligned_buffer.h"
#include "io/posix_file.h"
#include "io/read_pool.h"
#include "tests/support/scratch.h"

namespace bmoe::io {
namespace {

using bmoe::test::Scratch;
using test::FakeFile;
using test::make_contents;

// A real file; what its system calls return passes through a function.
class FaultyFile final : public RandomAccessFile {
  public:
    using Fault = std::function<int64_t(const ReadSteps &steps, int64_t result)>;

    explicit FaultyFile(OpenedFile opened) : file_(std::move(opened.file)) {}
    Fault fault;

    const std::string &path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    uint32_t block_size() const override { return file_->block_size(); }
    bool is_direct() const override { return file_->is_direct(); }
    ReadStatus read(uint64_t, uint64_t, std::byte *) const override { return {"not read in steps"}; }
    bool start(ReadSteps &steps) const override { return file_->start(steps); }
    void advance(ReadSteps &steps, int64_t result) const override {
        file_->advance(steps, fault ? fault(steps, result) : result);
    }

  private:
    std::unique_ptr<RandomAccessFile> file_;
};

class UringPoolTest : public ::testing::TestWithParam<DirectIo> {
  protected:
    struct Read {
        ReadJob job;
        std::unique_ptr<AlignedBuffer> memory;
        std::mutex mutex;
        ReadStatus status;
        int times_done = 0;
    };

    void SetUp() override {
        try {
            pool_ = std::make_unique<ReadPool>(4, ReadEngine::kUring);
        } catch (const Error &error) {
            GTEST_SKIP() << error.what();
        }
    }

    Read &add(const RandomAccessFile &file, uint64_t offset, uint64_t length) {
        Read &read = reads_.emplace_back();
        read.memory = std::make_unique<AlignedBuffer>(file.span(offset, length).length, file.block_size());
        read.job.file = &file;
        read.job.offset = offset;
        read.job.length = length;
        read.job.dst = read.memory->data();
        read.job.user = &read;
        read.job.done = [](ReadJob &job, const ReadStatus &status) {
            auto &self = *static_cast<Read *>(job.user);
            const std::lock_guard lock(self.mutex);
            self.status = status;
            ++self.times_done;
        };
        return read;
    }

    void destroy_with_jobs(Priority priority) {
        for (uint64_t i = 0; i < 1000; ++i) add(file_, i, 100000);
        std::vector<ReadJob *> jobs;
        for (Read &read : reads_) jobs.push_back(&read.job);
        pool_->submit(jobs, priority);
        pool_.reset();
        for (const Read &read : reads_) {
            ASSERT_EQ(read.times_done, 1);
            if (!read.status.ok()) {
                EXPECT_EQ(read.status.error, path_ + ": 100000 bytes at offset " + std::to_string(read.job.offset) +
                                                 " were not read: the read pool was shut down before the read started");
            } else {
                expect_contents(read);
            }
        }
    }

    void run(Priority priority = Priority::kDemand) {
        std::vector<ReadJob *> jobs;
        for (Read &read : reads_) jobs.push_back(&read.job);
        pool_->submit(jobs, priority);
        pool_->drain();
    }

    std::string error(const RandomAccessFile &file, uint64_t offset, uint64_t length) {
        reads_.clear();
        Read &read = add(file, offset, length);
        run();
        EXPECT_EQ(read.times_done, 1);
        return read.status.error;
    }

    void expect_contents(const Read &read) const {
        EXPECT_EQ(read.times_done, 1);
        ASSERT_EQ(read.status.error, "");
        const uint64_t lead = read.job.file->span(read.job.offset, read.job.length).lead;
        EXPECT_EQ(std::memcmp(read.job.dst + lead, contents_.data() + read.job.offset, read.job.length), 0)
            << "offset " << read.job.offset << " length " << read.job.length;
    }

    // Ranges at the start, across blocks, of one byte, and in the last, incomplete block.
    void expect_reads_right() {
        reads_.clear();
        const uint64_t size = contents_.size();
        for (const auto &[offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{
                 {0, 4096}, {5, 300000}, {4096, 4096}, {100000, 1}, {size - 5000, 5000}, {size - 1, 1}, {0, size}}) {
            add(file_, offset, length);
        }
        run();
        for (const Read &read : reads_) expect_contents(read);
    }

    Scratch dir_;
    std::string path_ = dir_.file("model.gguf");
    std::vector<std::byte> contents_ = make_contents((1 << 20) + 77);
    FaultyFile file_{(test::write_file(path_, contents_), open_posix_file(path_, GetParam()))};
    std::deque<Read> reads_;
    std::unique_ptr<ReadPool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Modes, UringPoolTest, ::testing::Values(DirectIo::kVerified, DirectIo::kOff),
                         [](const auto &info) { return info.param == DirectIo::kOff ? "Buffered" : "Direct"; });

TEST_P(UringPoolTest, ReadsRanges) {
    EXPECT_EQ(pool_->engine(), ReadEngine::kUring);
    EXPECT_EQ(pool_->lanes(), 4);
    for (int round = 0; round < 50; ++round) expect_reads_right();
}

TEST_P(UringPoolTest, KeepsReadsInFlightTogether) {
    for (uint64_t i = 0; i < 4; ++i) add(file_, i * 4096, 500000);
    run();
    const ReadCounters counters = pool_->counters();
    EXPECT_EQ(counters.reads, 4u);
    EXPECT_EQ(counters.bytes, 4u * 500000);
    EXPECT_GT(counters.busy_ns, counters.active_ns);
}

TEST_P(UringPoolTest, ReadsNothing) {
    EXPECT_EQ(error(file_, 5, 0), "");
    EXPECT_EQ(pool_->counters().bytes, 0u);
}

TEST_P(UringPoolTest, RefusesRangesBeyondTheEnd) {
    EXPECT_EQ(error(file_, contents_.size() - 1, 2),
              path_ +
                  ": 2 bytes at offset 1048652 reach beyond the end of the file (size 1048653): the file is "
                  "incomplete; copy or download it again");
}

TEST_P(UringPoolTest, RepeatsInterruptedReads) {
    int count = 0;
    file_.fault = [&count](const ReadSteps &, int64_t result) { return ++count % 2 == 1 ? -EINTR : result; };
    expect_reads_right();
}

TEST_P(UringPoolTest, ContinuesShortReads) {
    file_.fault = [](const ReadSteps &, int64_t result) { return (result + 1) / 2; };
    expect_reads_right();
}

TEST_P(UringPoolTest, ReportsIoErrorsAndGoesOn) {
    file_.fault = [](const ReadSteps &steps, int64_t result) { return steps.offset == 1000 ? -EIO : result; };
    EXPECT_EQ(error(file_, 1000, 100), path_ +
                                           ": cannot read 100 bytes at offset 1000: Input/output error; check the disk "
                                           "and the kernel log");
    expect_reads_right();
}

TEST_P(UringPoolTest, NoticesAChangedFile) {
    EXPECT_EQ(error(file_, 0, 10), "");
    ASSERT_EQ(::truncate(path_.c_str(), 500000), 0);
    EXPECT_EQ(error(file_, 0, 10), path_ +
                                       ": the file changed while in use (its size was 1048653 bytes and is 500000); "
                                       "restart to read the new contents");
    EXPECT_EQ(error(file_, 600000, 10),
              path_ +
                  ": 10 bytes at offset 600000 reach beyond the end of the file (size "
                  "500000): truncated or replaced while in use; restore the file and restart");
}

TEST_P(UringPoolTest, SurvivesExceptionsOfTheFile) {
    file_.fault = [](const ReadSteps &, int64_t) -> int64_t { throw std::runtime_error("thrown"); };
    EXPECT_EQ(error(file_, 1000, 100), path_ + ": cannot read 100 bytes at offset 1000: thrown");
    file_.fault = {};
    expect_reads_right();
}

TEST_P(UringPoolTest, ReadsFilesWithoutADescriptorBetweenOthers) {
    const FakeFile fake(contents_);
    for (uint64_t i = 0; i < 100; ++i) {
        add(file_, i * 1000, 50000);
        add(fake, i * 1000, 50000);
    }
    run();
    for (const Read &read : reads_) expect_contents(read);
}

TEST_P(UringPoolTest, ReadsMoreGuessesThanAreInFlightTogether) {
    for (uint64_t i = 0; i < 100; ++i) add(file_, i * 1000, 50000);
    run(Priority::kGuess);
    for (const Read &read : reads_) expect_contents(read);
}

TEST_P(UringPoolTest, DestructionCompletesEveryJobOnce) {
    for (const Priority priority : {Priority::kSpeculative, Priority::kGuess}) {
        SCOPED_TRACE(static_cast<int>(priority));
        reads_.clear();
        if (pool_ == nullptr) pool_ = std::make_unique<ReadPool>(4, ReadEngine::kUring);
        destroy_with_jobs(priority);
    }
}

}  // namespace
}  // namespace bmoe::io
