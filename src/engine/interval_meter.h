// Measures what happens between two moments of a run.
#pragma once

#include <chrono>

#include "backend/expert_store.h"
#include "telemetry/process_usage.h"

namespace bmoe::engine {

class Engine;

// The difference between two moments.
struct Interval {
    double seconds = 0;
    telemetry::ProcessUsage usage;
    backend::StoreCounters experts;  // zero when nothing is streamed
};

// From its construction to stop().
class IntervalMeter {
  public:
    explicit IntervalMeter(const Engine &engine);
    Interval stop() const;

  private:
    const Engine &engine_;
    backend::StoreCounters experts_;
    telemetry::ProcessUsage usage_;
    std::chrono::steady_clock::time_point start_;
};

// Fills an interval when it goes out of scope, however that happens.
class IntervalScope {
  public:
    IntervalScope(const Engine &engine, Interval &interval) : meter_(engine), interval_(interval) {}
    ~IntervalScope() { interval_ = meter_.stop(); }
    IntervalScope(const IntervalScope &) = delete;
    IntervalScope &operator=(const IntervalScope &) = delete;

  private:
    IntervalMeter meter_;
    Interval &interval_;
};

}  // namespace bmoe::engine
