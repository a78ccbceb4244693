// The lines at the end of a run. Their form is a contract (docs/telemetry.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telemetry/bound.h"

namespace bmoe::telemetry {

// Times in seconds, sizes in bytes. Numbers that could not be measured are negative and printed as -1.
struct RunSummary {
    uint32_t prompt_tokens = 0;
    double prompt_seconds = 0;
    uint32_t generated = 0;
    std::vector<double> step_seconds;  // one per decoded token after the first
    double load_seconds = 0;
    double first_token_seconds = -1;  // load, context and prompt

    double user_seconds = 0, system_seconds = 0;  // while decoding
    double decode_seconds = 0;
    int64_t major_faults = 0, minor_faults = 0;
    int64_t peak_rss = -1;
    double dense_resident = -1;  // share of the dense weights' pages that is in memory at the end
    int threads = 0;

    bool streaming = false;
    bool o_direct = false;
    double stall_seconds = 0;           // waiting for experts with nothing to compute
    double expert_compute_seconds = 0;  // multiplying by experts, average of the compute threads
    uint64_t read_bytes = 0;            // experts, while decoding
    uint64_t prompt_read_bytes = 0;     // experts, for the prompt
    double read_active_seconds = 0;     // with a read in flight, while decoding
    BoundInput bound;
    PromptBoundInput prompt_bound;
    uint64_t hits = 0, misses = 0;  // experts, while decoding
    uint64_t resident_bytes = 0, slot_bytes = 0;
    std::string policy;
    // Experts of the next layer that were read ahead, while decoding.
    bool lookahead = false;
    uint64_t guesses_started = 0, guesses_right = 0, guesses_ready = 0, guessable_misses = 0, wasted_bytes = 0,
             early_bytes = 0;
    bool huge_pages = false;
    uint64_t warmed_bytes = 0;  // experts read before the prompt, from the profile

    // Routing that was changed to save reads. `*_mass`: share of the router's weights that it cost, 0..1.
    bool drops = false, substitutes = false;
    uint64_t routed = 0;  // experts, while decoding
    uint64_t dropped = 0, substituted = 0;
    double dropped_mass = -1, substituted_mass = -1;
    bool drops_in_prompt = false;
    uint64_t prompt_routed = 0, prompt_dropped = 0;
    double prompt_dropped_mass = -1;

    std::string lossy;         // what makes the output another than the model's; empty: it is the model's
    std::string route_replay;  // line that says that the routing was recorded; empty: it was the router's
};

// "generation:" and "compute:"; with streaming also "moe-stream:", "moe-cache:", "prompt-bound:" and "bound:", and where they
// apply "moe-lookahead:", "moe-drop-prompt:", "moe-drop:", "moe-substitute:", "route-replay:" and "lossy:". Without line ends.
std::vector<std::string> summary_lines(const RunSummary &run);

}  // namespace bmoe::telemetry
