// Positioned reads, several in flight, demand before speculation. Two engines do the same: lanes, which are threads that each
// perform one read at a time, and an io_uring, which one thread feeds and empties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/random_access_file.h"

namespace bmoe::io {

class ReadObserver;

// The higher first. kSpeculative: will probably be needed. kGuess: perhaps, and at most ReadPool::kMostGuesses of them are read
// at a time, since a demand read waits for those in flight.
enum class Priority : uint8_t { kDemand, kSpeculative, kGuess };

enum class ReadEngine { kAuto, kLanes, kUring };

// One read, owned by the caller, which keeps it alive until `done` has run or cancel() has returned true. Intrusive, so
// that submitting allocates nothing.
struct ReadJob {
    const RandomAccessFile *file = nullptr;
    uint64_t offset = 0;       // bytes
    uint64_t length = 0;       // bytes
    std::byte *dst = nullptr;  // see RandomAccessFile::read

    // Called once, on a thread of the pool, after the read. Must not throw and must not call back into the pool's submit or cancel.
    void (*done)(ReadJob &job, const ReadStatus &status) = nullptr;
    void *user = nullptr;

    uint64_t tag = 0;  // tells a ReadObserver what is read

    // The pool's own.
    uint64_t asked_ns = 0;
    ReadJob *next = nullptr;
    ReadJob *prev = nullptr;
    uint8_t state = 0;
    Priority priority = Priority::kDemand;
};

struct ReadCounters {
    uint64_t reads = 0;              // finished, those that failed included
    uint64_t bytes = 0;              // asked for by the reads that succeeded, without the rounding to blocks
    uint64_t speculative_bytes = 0;  // part of `bytes` that was read at lower priority than kDemand
    uint64_t busy_ns = 0;            // summed over reads: time in flight
    uint64_t active_ns = 0;          // time with a read in flight; bytes / active_ns is the delivered bandwidth

    ReadCounters since(const ReadCounters &earlier) const {
        return {reads - earlier.reads, bytes - earlier.bytes, speculative_bytes - earlier.speculative_bytes,
                busy_ns - earlier.busy_ns, active_ns - earlier.active_ns};
    }
};

class ReadPool {
  public:
    static constexpr int kMostGuesses = 2;  // keeps a disk almost as busy as more do

    // At most `lanes` reads (1..64) in flight. kAuto is kUring, or kLanes where the system gives no io_uring. kUring keeps only
    // reads of files with a descriptor in flight together; others are performed one by one. Throws bmoe::Error, also for
    // kUring where the system gives no io_uring.
    explicit ReadPool(int lanes, ReadEngine engine = ReadEngine::kAuto);
    // Finishes reads in flight; those not started complete, on a thread of the pool, with an error that says so.
    ~ReadPool();
    ReadPool(const ReadPool &) = delete;
    ReadPool &operator=(const ReadPool &) = delete;

    int lanes() const;
    ReadEngine engine() const;  // the one at work: kLanes or kUring

    // Why kAuto became kLanes, as a line for the user; empty otherwise.
    const std::string &note() const;

    // Queues jobs in the order given; first in, first out within a priority. A job is started only when none of a
    // higher priority waits. Thread-safe.
    void submit(std::span<ReadJob *const> jobs, Priority priority);

    // Takes a job that has not been started out of the queue: true, and `done` will not run. False if it is being read or
    // is done. Thread-safe.
    bool cancel(ReadJob &job);

    // Moves a waiting job of lower priority to the end of the demand queue; a waiting demand job stays where it is. True if it
    // was waiting. Thread-safe.
    bool promote(ReadJob &job);

    // Returns when no job waits and no read or `done` runs. Thread-safe; not to be called from `done`.
    void drain();

    // Up to now: reads in flight count in busy_ns and active_ns. A read is counted before its `done` runs. Thread-safe.
    ReadCounters counters() const;

    // From now on `observer` learns of every read; nullptr: nobody, and when this returns no call to the last one is running.
    // Must outlive the pool otherwise. Thread-safe.
    void set_observer(ReadObserver *observer);

    class Impl;

  private:
    std::string note_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace bmoe::io
