// Learns of every read of a pool, for traces.
#pragma once

#include <cstdint>

#include "io/read_pool.h"

namespace bmoe::io {

// Times are of bmoe::now_ns(); 0: before the pool had its observer.
struct ReadRecord {
    const ReadJob &job;
    Priority priority;    // at which it was started
    uint64_t asked_ns;    // submit()
    uint64_t started_ns;  // taken from the queue
    uint64_t done_ns;
    bool ok;
};

class ReadObserver {
  public:
    virtual ~ReadObserver() = default;

    // After each read that was started, those that failed included, before its `done` runs. On a thread of the pool, which
    // holds the pool's lock: one call at a time. Must be short, not throw, and leave the pool alone.
    virtual void on_read(const ReadRecord &record) = 0;
};

}  // namespace bmoe::io
