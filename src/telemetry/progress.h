// Lines that say how far a run is. Their form is a contract (docs/telemetry.md).
#pragma once

#include <cstdint>
#include <string>

namespace bmoe::telemetry {

// Since the phase began. -1: not measured.
struct Progress {
    const char *phase = "decode";  // or "prompt"
    uint64_t tokens = 0, of = 0;   // done; at most
    double seconds = 0;
    double hit_rate = -1;          // share of the experts that were resident, 0..1
    double read_bytes = -1;        // of experts
    double stall_seconds = -1;     // waiting for experts
    int64_t available_bytes = -1;  // MemAvailable, now
    bool lossy = false;            // the output is another than the model's
};

// "progress:" and its figures as key=value, without line end.
std::string progress_line(const Progress &progress);

}  // namespace bmoe::telemetry
