#include "io/pool_impl.h"

#include "base/clock.h"
#include "base/error.h"
#include "io/read_observer.h"

namespace bmoe::io {
namespace {

// Values of ReadJob::state. A job whose callback has run keeps kTaken: the pool may not touch it any more.
enum State : uint8_t { kFree, kWaitingDemand, kWaitingSpeculative, kTaken };

}  // namespace

void ReadPool::Impl::submit(std::span<ReadJob *const> jobs, Priority priority) {
    Lock lock(mutex_);
    const bool is_demand = priority == Priority::kDemand;
    JobQueue &queue = is_demand ? demand_ : speculative_;
    const uint64_t asked_ns = observer_ != nullptr ? now_ns() : 0;
    for (ReadJob *job : jobs) {
        job->asked_ns = asked_ns;
        job->state = is_demand ? kWaitingDemand : kWaitingSpeculative;
        queue.push_back(*job);
    }
    wake(lock, jobs.size());
}

bool ReadPool::Impl::cancel(ReadJob &job) {
    const Lock lock(mutex_);
    if (!unlink(job)) return false;
    if (is_idle()) idle_.notify_all();
    return true;
}

bool ReadPool::Impl::promote(ReadJob &job) {
    const Lock lock(mutex_);
    if (job.state == kWaitingDemand) return true;
    if (!unlink(job)) return false;
    job.state = kWaitingDemand;
    demand_.push_back(job);
    return true;
}

void ReadPool::Impl::drain() {
    Lock lock(mutex_);
    idle_.wait(lock, [this] { return is_idle(); });
}

ReadCounters ReadPool::Impl::counters() {
    const Lock lock(mutex_);
    settle();
    return totals_;
}

void ReadPool::Impl::set_observer(ReadObserver *observer) {
    const Lock lock(mutex_);
    observer_ = observer;
}

ReadPool::Impl::Taken ReadPool::Impl::take() {
    const bool is_speculative = demand_.empty();
    ReadJob &job = (is_speculative ? speculative_ : demand_).pop_front();
    job.state = kTaken;
    ++running_;
    return {&job, is_speculative, observer_ != nullptr ? now_ns() : 0};
}

void ReadPool::Impl::begin_read() {
    settle();
    ++reading_;
}

void ReadPool::Impl::end_read(const Taken &taken, const ReadStatus &status) {
    settle();
    --reading_;
    ++totals_.reads;
    if (observer_ != nullptr) {
        observer_->on_read({*taken.job, taken.is_speculative ? Priority::kSpeculative : Priority::kDemand,
                            taken.job->asked_ns, taken.started_ns, now_ns(), status.ok()});
    }
    if (!status.ok()) return;
    totals_.bytes += taken.job->length;
    if (taken.is_speculative) totals_.speculative_bytes += taken.job->length;
}

void ReadPool::Impl::finish(Lock &lock, const Taken &taken, const ReadStatus &status) {
    lock.unlock();
    taken.job->done(*taken.job, status);
    lock.lock();
    --running_;
    if (is_idle()) idle_.notify_all();
}

ReadStatus ReadPool::Impl::refusal(const ReadJob &job) {
    return {cat(job.file->path(), ": ", job.length, " bytes at offset ", job.offset,
                " were not read: the read pool was shut down before the read started")};
}

// Takes a waiting job out of its queue. False if it does not wait.
bool ReadPool::Impl::unlink(ReadJob &job) {
    if (job.state == kWaitingDemand) {
        demand_.remove(job);
    } else if (job.state == kWaitingSpeculative) {
        speculative_.remove(job);
    } else {
        return false;
    }
    job.state = kFree;
    return true;
}

// Adds the time since the last call to the counters; called before `reading_` changes.
void ReadPool::Impl::settle() {
    const Clock::time_point now = Clock::now();
    const auto elapsed =
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now - settled_).count());
    settled_ = now;
    totals_.busy_ns += elapsed * static_cast<uint64_t>(reading_);
    if (reading_ > 0) totals_.active_ns += elapsed;
}

}  // namespace bmoe::io
