// What the engines of a ReadPool share: the queues, the states of jobs, and the counters.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "io/job_queue.h"
#include "io/read_pool.h"

namespace bmoe::io {

// The public functions are those of ReadPool. An engine's threads use the protected ones.
class ReadPool::Impl {
  public:
    Impl(int lanes, ReadEngine engine) : lanes_(lanes), engine_(engine) {}
    virtual ~Impl() = default;
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;

    int lanes() const { return lanes_; }
    ReadEngine engine() const { return engine_; }
    void submit(std::span<ReadJob *const> jobs, Priority priority);
    bool cancel(ReadJob &job);
    bool promote(ReadJob &job);
    void drain();
    ReadCounters counters();
    void set_observer(ReadObserver *observer);

  protected:
    using Lock = std::unique_lock<std::mutex>;

    struct Taken {
        ReadJob *job = nullptr;
        Priority priority = Priority::kDemand;
        uint64_t started_ns = 0;  // with an observer
    };

    // `jobs` jobs were queued; called with the mutex held, may return with it released.
    virtual void wake(Lock &lock, size_t jobs) = 0;

    // All that follow are called with the mutex held.

    // Whether a job may be taken.
    bool has_work() const { return next_priority().has_value(); }

    // The next job, out of its queue. Each must come to finish(), those that are read between begin_read() and end_read().
    Taken take();
    void begin_read();
    void end_read(const Taken &taken, const ReadStatus &status);

    // Calls the job's `done` with the mutex released. The job belongs to its owner then, who may free it.
    void finish(Lock &lock, const Taken &taken, const ReadStatus &status);

    // The status of a job that is not read because the pool ends.
    static ReadStatus refusal(const ReadJob &job);

    std::mutex mutex_;
    bool stopping_ = false;

  private:
    using Clock = std::chrono::steady_clock;

    static constexpr size_t kPriorities = 3;

    bool is_idle() const;
    // Of the job to be taken next; empty if there is none.
    std::optional<Priority> next_priority() const;
    JobQueue &queue(Priority priority) { return queues_[static_cast<size_t>(priority)]; }
    bool unlink(ReadJob &job);
    void settle();

    const int lanes_;
    const ReadEngine engine_;
    std::condition_variable idle_;
    std::array<JobQueue, kPriorities> queues_;  // by priority
    int running_ = 0;                           // jobs taken whose callback has not returned
    int guessing_ = 0;                          // of these: taken at kGuess
    int reading_ = 0;                           // jobs inside a read
    ReadCounters totals_;
    Clock::time_point settled_ = Clock::now();
    ReadObserver *observer_ = nullptr;
};

// Both throw bmoe::Error if the system does not give what they need.
std::unique_ptr<ReadPool::Impl> make_lane_pool(int lanes);
std::unique_ptr<ReadPool::Impl> make_uring_pool(int lanes);

}  // namespace bmoe::io
