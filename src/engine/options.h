// What a caller can choose when opening a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "backend/lookahead.h"
#include "backend/lossy_routing.h"
#include "cache/policy.h"
#include "io/posix_file.h"
#include "io/read_pool.h"

namespace bmoe::backend {
class RouteObserver;
}
namespace bmoe::io {
class ReadObserver;
}

namespace bmoe::engine {

enum class FlashAttention { kAuto, kOn, kOff };  // kAuto: where llama.cpp can

// Where weights other than the routed experts are while experts are streamed.
enum class DenseWeights {
    kAnon,  // in memory of the engine's own, read by direct I/O; rearranged for faster kernels if Options::repack
    kMmap,  // in the page cache, as the file has them, read when they are touched
    kWarm,  // the same, read while the model loads
};

struct Options {
    std::string model;  // path of a GGUF, or of any shard of one

    // Stream routed experts. Off: plain llama.cpp with mmap, or with the whole model in memory of its own if `resident`.
    bool stream = true;
    bool resident = false;
    // With `stream`: only where that is of use. A model that fits into memory with its context runs as if `resident`, unless a
    // cache for fewer than all experts is asked for, or a route replay. OpenReport::mode_note says what was chosen, and why.
    bool stream_if_needed = false;

    // The most memory that the whole process may take, in bytes; 0: what is free. Too little is refused with the least that
    // would do. With `stream` only: what llama.cpp maps by itself is not planned.
    uint64_t ram_bytes = 0;

    // Bytes for cached experts; 0: no cache; empty: as much as is really free after everything else, up to the ceiling
    // (0: none), and refused below the floor (0: none).
    std::optional<uint64_t> cache_bytes;
    uint64_t cache_ceiling_bytes = 0;
    uint64_t cache_floor_bytes = 0;
    DenseWeights dense_weights = DenseWeights::kAnon;
    cache::PolicyKind policy = cache::PolicyKind::kReap;
    // Starts with the experts that earlier runs of the model used most, read while the other weights load, and notes down at
    // the end what this run used. With REAP and a cache only.
    bool warm_start = false;
    std::string profile;  // the file for that; empty: one for each model, below the user's cache folder
    int io_threads = 4;
    io::ReadEngine io_engine = io::ReadEngine::kAuto;
    bool overlap = true;
    // Experts of the next layer that are read ahead on its router's guess; 0: none; kAuto: where it pays.
    int lookahead = backend::Lookahead::kAuto;
    io::DirectIo direct_io = io::DirectIo::kVerified;

    // Experts a token uses; 0: as many as the model was made for. Another number changes the output.
    uint32_t n_expert_used = 0;

    // Leaves out or replaces experts that would have to be read. The output is another. Its on_note is set by the engine.
    backend::LossyOptions lossy;

    // A route trace (CSV): tokens use the experts recorded there, and nothing is read ahead. For measurement of a streaming
    // run; the text is meaningless. Empty: the router's.
    std::string route_replay;

    // Let llama.cpp rearrange weights that are not streamed for faster kernels (its default).
    bool repack = true;
    // Of a model wholly in memory rearrange the experts too. For measurement: without, they are multiplied as streamed ones could be.
    bool repack_experts = true;

    // ggml's names of the types that keys and values are kept in, of kv_types(). Others than f16 change the output.
    std::string kv_type_k = "f16";
    std::string kv_type_v = "f16";
    FlashAttention flash_attention = FlashAttention::kAuto;

    int threads = 0;        // compute threads; 0: one for each physical core, without efficiency cores
    uint32_t n_ctx = 4096;  // tokens of context; 0: what the model was trained with
    // Prompt tokens computed at once. 0: 512; when streaming, up to 2048 where the cache loses next to nothing by it, and fewer
    // where the plan would not fit otherwise. A prompt reads its experts once per ubatch.
    uint32_t n_ubatch = 0;
    // A caller that decodes by llama_decode(context()) itself may ask for the logits of every token of a batch. Otherwise of one,
    // as Engine::decode() does, and llama.cpp aborts if it is more: the room for them is hundreds of MiB.
    bool all_logits = false;

    // Learn of the experts' routing and reads when streaming; nullptr: nobody. The reads by which the disk's bandwidth is measured
    // are left out. They must outlive the engine.
    backend::RouteObserver *route_observer = nullptr;
    io::ReadObserver *read_observer = nullptr;

    // Called with 0..1 while the model loads, on the loading thread.
    std::function<void(float)> on_progress;
    // One line each for the user: fallbacks, what is not streamed and why. Called while a model is opened, decodes or is
    // closed, on the thread that does so. Must not throw.
    std::function<void(const std::string &)> on_note;

    void note(const std::string &line) const {
        if (on_note && !line.empty()) {
            on_note(line);
        }
    }
};

}  // namespace bmoe::engine
