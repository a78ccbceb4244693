// What a caller can choose when opening a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cache/policy.h"
#include "io/posix_file.h"
#include "io/read_pool.h"

namespace bmoe::engine {

struct Options {
    std::string model;  // path of a GGUF, or of any shard of one

    // Stream routed experts. Off: plain llama.cpp with mmap.
    bool stream = true;

    // Bytes for cached experts; 0: no cache; empty: as much as is really free after everything else.
    std::optional<uint64_t> cache_bytes;
    cache::PolicyKind policy = cache::PolicyKind::kReap;
    int io_threads = 4;
    io::ReadEngine io_engine = io::ReadEngine::kAuto;
    bool overlap = true;
    io::DirectIo direct_io = io::DirectIo::kVerified;

    // Let llama.cpp rearrange dense weights for faster kernels (its default).
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
