#include "io/pool_impl.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "io/read_observer.h"

namespace bmoe::io {
namespace {

// Values of ReadJob::state. A job whose callback has run keeps kTaken: the pool may not touch it any more.
enum State : uint8_t { kFree, kWaiting, kTaken };

}  // namespace

void ReadPool::Impl::submit(std::span<ReadJob *const> jobs, Priority priority) {
    Lock lock(mutex_);
    const uint64_t asked_ns = observer_ != nullptr ? now_ns() : 0;
    for (ReadJob *job : jobs) {
        job->asked_ns = asked_ns;
        job->state = kWaiting;
        job->priority = priority;
        queue(priority).push_back(*job);
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
    if (job.state == kWaiting && job.priority == Priority::kDemand) return true;
    if (!unlink(job)) return false;
    job.state = kWaiting;
    job.priority = Priority::kDemand;
    queue(Priority::kDemand).push_back(job);
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
    ReadJob &job = queue(*next_priority()).pop_front();
    job.state = kTaken;
    ++running_;
    guessing_ += job.priority == Priority::kGuess ? 1 : 0;
    return {&job, job.priority, observer_ != nullptr ? now_ns() : 0};
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
        observer_->on_read({*taken.job, taken.priority, taken.job->asked_ns, taken.started_ns, now_ns(), status.ok()});
    }
    if (!status.ok()) return;
    totals_.bytes += taken.job->length;
    if (taken.priority != Priority::kDemand) totals_.speculative_bytes += taken.job->length;
}

void ReadPool::Impl::finish(Lock &lock, const Taken &taken, const ReadStatus &status) {
    lock.unlock();
    taken.job->done(*taken.job, status);
    lock.lock();
    --running_;
    guessing_ -= taken.priority == Priority::kGuess ? 1 : 0;
    if (is_idle()) idle_.notify_all();
}

ReadStatus ReadPool::Impl::refusal(const ReadJob &job) {
    return {cat(job.file->path(), ": ", job.length, " bytes at offset ", job.offset,
                " were not read: the read pool was shut down before the read started")};
}

bool ReadPool::Impl::is_idle() const {
    return running_ == 0 &&
           std::all_of(queues_.begin(), queues_.end(), [](const JobQueue &queue) { return queue.empty(); });
}

std::optional<Priority> ReadPool::Impl::next_priority() const {
    for (const Priority priority : {Priority::kDemand, Priority::kSpeculative, Priority::kGuess}) {
        const bool may_be_taken = priority != Priority::kGuess || guessing_ < kMostGuesses;
        if (may_be_taken && !queues_[static_cast<size_t>(priority)].empty()) return priority;
    }
    return std::nullopt;
}

// Takes a waiting job out of its queue. False if it does not wait.
bool ReadPool::Impl::unlink(ReadJob &job) {
    if (job.state != kWaiting) return false;
    queue(job.priority).remove(job);
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
