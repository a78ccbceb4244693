// What a caller can choose when opening a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cache/policy.h"
#include "io/posix_file.h"

namespace bmoe::engine {

struct Options {
    std::string model;  // path of a GGUF, or of any shard of one

    // Stream routed experts. Off: plain llama.cpp with mmap, or with the whole model in memory of its own if `resident`.
    bool stream = true;
    bool resident = false;

    // Bytes for cached experts; 0: no cache; empty: as much as is really free after everything else.
    std::optional<uint64_t> cache_bytes;
    cache::PolicyKind policy = cache::PolicyKind::kReap;
    int io_threads = 4;
    bool overlap = true;
    io::DirectIo direct_io = io::DirectIo::kVerified;

    // Experts a token uses; 0: as many as the model was made for. Another number changes the output.
    uint32_t n_expert_used = 0;

    // A route trace (CSV): decoded tokens use the experts recorded there. For measurement of a streaming run; the text is
    // meaningless. Empty: the router's.
    std::string route_replay;

    // Let llama.cpp rearrange weights that are not streamed for faster kernels (its default).
    bool repack = true;

    int threads = 0;        // compute threads; 0: one per core
    uint32_t n_ctx = 4096;  // tokens of context; 0: what the model was trained with
    uint32_t n_ubatch = 512;

    // Called with 0..1 while the model loads, on the loading thread.
    std::function<void(float)> on_progress;
    // One line each for the user: fallbacks, what is not streamed and why.
    std::function<void(const std::string &)> on_note;
};

}  // namespace bmoe::engine
