#include "engine/interval_meter.h"

#include "engine/engine.h"

namespace bmoe::engine {

IntervalMeter::IntervalMeter(const Engine &engine) : engine_(engine) {
    if (engine.store() != nullptr) {
        experts_ = engine.store()->counters();
    }
    usage_ = telemetry::ProcessUsage::now();
    start_ = std::chrono::steady_clock::now();
}

Interval IntervalMeter::stop() const {
    Interval interval;
    interval.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    interval.usage = telemetry::ProcessUsage::now().since(usage_);
    if (engine_.store() != nullptr) {
        interval.experts = engine_.store()->counters().since(experts_);
    }
    return interval;
}

}  // namespace bmoe::engine
