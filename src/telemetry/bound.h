// How close a run came to what its hardware allows.
//
// A token, or a prompt, takes at least the time of its computation with every expert resident, and at least the time the disk
// needs for the experts that were not. Both are measured in the run itself; the larger one is the bound (a roofline).
#pragma once

#include <cstdint>
#include <string>

namespace bmoe::telemetry {

// Of the decoded tokens together. Times in seconds, sizes in bytes.
struct BoundInput {
    uint64_t tokens = 0;
    double seconds = 0;         // all of it
    double expert_seconds = 0;  // in the experts' graph splits
    uint64_t splits = 0;
    uint64_t cached_splits = 0;  // with all experts resident
    double cached_seconds = 0;   // in these
    uint64_t needed_bytes = 0;   // read because they were needed
    double bandwidth = 0;        // the most bytes per second that were measured; 0: not measured
};

// Negative where it could not be measured. Seconds per token, or for a prompt.
struct Bound {
    double compute = -1;  // with every expert resident: the rest of the model plus splits as fast as the cached ones
    double io = -1;       // for the needed bytes at the measured bandwidth
    double bound = -1;    // the larger
    double reached = -1;  // bound over the measured time, 0..1
};

Bound bound_of(const BoundInput &input);

// The "bound:" line.
std::string bound_line(const BoundInput &input);

// Of a prompt as a whole. Its layers are hardly ever all cached, so that its computation is the time in which it did not wait.
struct PromptBoundInput {
    uint32_t tokens = 0;
    double seconds = 0;
    double stall_seconds = 0;   // of these: nothing was ready to compute
    uint64_t needed_bytes = 0;  // read because they were needed
    double bandwidth = 0;       // as above
};

// In seconds for all its tokens.
Bound bound_of(const PromptBoundInput &input);

// The "prompt-bound:" line.
std::string bound_line(const PromptBoundInput &input);

}  // namespace bmoe::telemetry
