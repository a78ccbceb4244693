#include "io/read_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "io/guarded_read.h"
#include "io/job_queue.h"

namespace bmoe::io {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxLanes = 64;

// Values of ReadJob::state. A job whose callback has run keeps kTaken: the pool may not touch it any more.
enum State : uint8_t { kFree, kWaitingDemand, kWaitingSpeculative, kTaken };

}  // namespace

struct ReadPool::Impl {
    ~Impl() {
        {
            const std::lock_guard lock(mutex);
            stopping = true;
        }
        work.notify_all();
        for (std::thread &thread : threads) thread.join();
    }

    // All that follow up to run() are called with the mutex held.

    bool has_work() const { return !demand.empty() || !speculative.empty(); }
    bool is_idle() const { return !has_work() && running == 0; }

    // Adds the time since the last call to the counters; called before `reading` changes.
    void settle() {
        const Clock::time_point now = Clock::now();
        const auto elapsed =
            static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now - settled).count());
        settled = now;
        totals.busy_ns += elapsed * static_cast<uint64_t>(reading);
        if (reading > 0) totals.active_ns += elapsed;
    }

    // Takes a waiting job out of its queue. False if it does not wait.
    bool unlink(ReadJob &job) {
        if (job.state == kWaitingDemand) {
            demand.remove(job);
        } else if (job.state == kWaitingSpeculative) {
            speculative.remove(job);
        } else {
            return false;
        }
        job.state = kFree;
        return true;
    }

    // The body of a lane.
    void run() {
        std::unique_lock lock(mutex);
        for (;;) {
            if (!has_work()) {
                if (stopping) return;
                ++sleeping;
                work.wait(lock, [this] { return stopping || has_work(); });
                --sleeping;
                continue;
            }
            const bool is_speculative = demand.empty();
            ReadJob &job = (is_speculative ? speculative : demand).pop_front();
            job.state = kTaken;
            ++running;
            const ReadStatus status = stopping ? refuse(job, lock) : perform(job, is_speculative, lock);
            // From here on the job belongs to its owner, who may free it in the callback.
            job.done(job, status);
            lock.lock();
            --running;
            if (is_idle()) idle.notify_all();
        }
    }

    // Both are called with the mutex held and return with it released.

    ReadStatus perform(const ReadJob &job, bool is_speculative, std::unique_lock<std::mutex> &lock) {
        settle();
        ++reading;
        lock.unlock();
        ReadStatus status = guarded_read(*job.file, job.offset, job.length, job.dst);
        lock.lock();
        settle();
        --reading;
        ++totals.reads;
        if (status.ok()) {
            totals.bytes += job.length;
            if (is_speculative) totals.speculative_bytes += job.length;
        }
        lock.unlock();
        return status;
    }

    static ReadStatus refuse(const ReadJob &job, std::unique_lock<std::mutex> &lock) {
        lock.unlock();
        return {cat(job.file->path(), ": ", job.length, " bytes at offset ", job.offset,
                    " were not read: the read pool was shut down before the read started")};
    }

    std::mutex mutex;
    std::condition_variable work;
    std::condition_variable idle;
    JobQueue demand;
    JobQueue speculative;
    int sleeping = 0;  // lanes in `work`
    int running = 0;   // jobs taken whose callback has not returned
    int reading = 0;   // jobs inside a read
    bool stopping = false;
    ReadCounters totals;
    Clock::time_point settled = Clock::now();
    std::vector<std::thread> threads;
};

ReadPool::ReadPool(int lanes) : impl_(std::make_unique<Impl>()) {
    if (lanes < 1 || lanes > kMaxLanes) {
        throw Error(cat("read lanes: ", lanes, " asked for; give a number from 1 to ", kMaxLanes));
    }
    impl_->threads.reserve(static_cast<size_t>(lanes));
    try {
        for (int lane = 0; lane < lanes; ++lane) impl_->threads.emplace_back([impl = impl_.get()] { impl->run(); });
    } catch (const std::system_error &error) {
        throw Error(cat("read lanes: the system gives only ", impl_->threads.size(), " of ", lanes, " threads (",
                        error.code().message(), "); use fewer lanes"));
    }
}

ReadPool::~ReadPool() = default;

int ReadPool::lanes() const { return static_cast<int>(impl_->threads.size()); }

void ReadPool::submit(std::span<ReadJob *const> jobs, Priority priority) {
    size_t wake = 0;
    {
        const std::lock_guard lock(impl_->mutex);
        const bool is_demand = priority == Priority::kDemand;
        JobQueue &queue = is_demand ? impl_->demand : impl_->speculative;
        for (ReadJob *job : jobs) {
            job->state = is_demand ? kWaitingDemand : kWaitingSpeculative;
            queue.push_back(*job);
        }
        wake = std::min(jobs.size(), static_cast<size_t>(impl_->sleeping));
    }
    for (; wake > 0; --wake) impl_->work.notify_one();
}

bool ReadPool::cancel(ReadJob &job) {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->unlink(job)) return false;
    if (impl_->is_idle()) impl_->idle.notify_all();
    return true;
}

bool ReadPool::promote(ReadJob &job) {
    const std::lock_guard lock(impl_->mutex);
    if (job.state == kWaitingDemand) return true;
    if (!impl_->unlink(job)) return false;
    job.state = kWaitingDemand;
    impl_->demand.push_back(job);
    return true;
}

void ReadPool::drain() {
    std::unique_lock lock(impl_->mutex);
    impl_->idle.wait(lock, [this] { return impl_->is_idle(); });
}

ReadCounters ReadPool::counters() const {
    const std::lock_guard lock(impl_->mutex);
    impl_->settle();
    return impl_->totals;
}

}  // namespace bmoe::io
