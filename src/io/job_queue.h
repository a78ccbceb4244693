// First-in, first-out list of jobs, linked through the jobs themselves. Not thread-safe.
#pragma once

#include "io/read_pool.h"

namespace bmoe::io {

class JobQueue {
  public:
    bool empty() const { return head_ == nullptr; }

    void push_back(ReadJob &job) {
        job.prev = tail_;
        job.next = nullptr;
        (tail_ ? tail_->next : head_) = &job;
        tail_ = &job;
    }

    // The queue must not be empty.
    ReadJob &pop_front() {
        ReadJob &job = *head_;
        remove(job);
        return job;
    }

    // `job` must be in this queue.
    void remove(ReadJob &job) {
        (job.prev ? job.prev->next : head_) = job.next;
        (job.next ? job.next->prev : tail_) = job.prev;
        job.next = nullptr;
        job.prev = nullptr;
    }

  private:
    ReadJob *head_ = nullptr;
    ReadJob *tail_ = nullptr;
};

}  // namespace bmoe::io
