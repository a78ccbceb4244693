// bmoe as a library: opens a GGUF model whose experts are streamed from storage, and generates text (docs/embedding.md).
//
// Names stay and keep their meaning from one version to the next; structs only gain fields. The library is static: it and the
// program that uses it must be compiled for the same standard library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bmoe/error.h"

namespace bmoe {

// The version of bmoe and the commit of llama.cpp in it.
const char *version();
const char *llama_cpp_commit();

// What is chosen when a model is opened.
struct ModelOptions {
    std::string path;  // a GGUF file, or any shard of one

    // Stream routed experts. Off: plain llama.cpp with mmap. A model without experts always runs that way.
    bool stream = true;
    // Bytes for cached experts; 0: no cache; empty: what is really free.
    std::optional<uint64_t> cache_bytes;
    // Start with the experts that earlier runs of the model used most: a small file per model in the user's cache folder.
    bool warm_start = true;
    int io_threads = 4;  // reads in flight, 1 to 64

    uint32_t context_tokens = 4096;  // 0: what the model was trained with
    uint32_t ubatch_tokens = 0;      // prompt tokens computed at once; 0: bmoe chooses
    int threads = 0;                 // compute threads, not more than processors; 0: one for each physical core

    // May be empty; called on the thread that opens the model, `on_note` also while it generates or is closed. Must not throw.
    std::function<void(float)> on_load;                // 0 to 1
    std::function<void(const std::string &)> on_note;  // a line for the user: fallbacks, what is not streamed and why
};

// What is known once a model is open. Sizes in bytes.
struct ModelInfo {
    std::string mode;  // how it runs, a line for the user
    bool streaming = false;
    bool direct_io = false;  // experts are read past the page cache
    bool chat_template = false;
    uint32_t context_tokens = 0;
    uint32_t ubatch_tokens = 0;
    int threads = 0;
    double load_seconds = 0;
    uint64_t dense_bytes = 0;    // weights in memory, if streaming
    uint64_t expert_bytes = 0;   // weights that are streamed
    uint64_t planned_bytes = 0;  // of memory in all, cache included, if streaming
};

struct Message {
    std::string role;  // system, user, assistant, or what else the model's template knows
    std::string content;
};

// How tokens are chosen: llama.cpp's samplers of these names.
struct Sampling {
    float temperature = 0;         // 0: always the likeliest token, and the rest has no effect
    int32_t top_k = 40;            // 0: off
    float top_p = 0.95F;           // 1: off
    float min_p = 0.05F;           // 0: off
    std::optional<uint32_t> seed;  // empty, or 2^32-1: another one each time
};

struct Request {
    // One of the two: text to continue, or a conversation for the model's own chat template. All of it, not only what is new:
    // what the context holds of its beginning is not computed again.
    std::string prompt;
    std::vector<Message> messages;

    uint32_t max_tokens = 128;
    Sampling sampling;
    std::vector<std::string>
        stop;  // the first of these texts ends the answer, and is not part of it; none may be empty

    // The answer as it comes: UTF-8, a character never split, what is none replaced by U+FFFD. False ends it. May be empty.
    std::function<bool(std::string_view)> on_text;
    // The same of what the model writes before its answer to messages, where its chat format tells that apart.
    std::function<bool(std::string_view)> on_reasoning;
    // How many tokens of the prompt are done, of how many: at its beginning and after each ubatch. May be empty.
    std::function<void(uint32_t done, uint32_t total)> on_prompt;
};

enum class StopReason {
    kEnd,        // the model's, or one of Request::stop
    kMaxTokens,  //
    kContext,    // it is full
    kCaller,     // on_text or on_reasoning returned false
    kCancelled   // Model::cancel()
};

// Numbers that were not measured are negative.
struct Answer {
    std::string text;
    std::string reasoning;
    StopReason reason = StopReason::kEnd;
    std::string stop;  // the one of Request::stop that ended it

    uint32_t prompt_tokens = 0;   // in all; 0 if it was cancelled before they were counted
    uint32_t reused_tokens = 0;   // of these, that the context held
    uint32_t decoded_tokens = 0;  // of these, computed: the others, or fewer if it was cancelled
    double prompt_seconds = 0;

    uint32_t generated_tokens = 0;
    uint32_t decode_steps = 0;  // the first token comes with the prompt, so there are fewer
    double decode_seconds = 0;  // of these

    // While decoding, if streaming.
    double hit_rate = -1;       // experts found in the cache, 0 to 1
    int64_t read_bytes = -1;    // of experts
    double wait_seconds = -1;   // for reads, with nothing to compute
    double bound_seconds = -1;  // the least a token takes on this machine
    double bound_reached = -1;  // 0 to 1
};

// Since the model was opened. Sizes in bytes; those of experts are 0 if nothing is streamed.
struct ModelStats {
    uint32_t held_tokens = 0;   // in the context
    uint64_t cache_bytes = 0;   // memory of the expert cache
    uint64_t cached_bytes = 0;  // experts in it
    uint64_t expert_hits = 0, expert_misses = 0;
    uint64_t read_bytes = 0;  // of experts
    int64_t peak_rss = -1;    // of the process
};

// An open model with a context. One thread at a time may use it; only cancel() may be called meanwhile. All functions but cancel()
// throw bmoe::Error; the model can be used on after one.
class Model {
  public:
    explicit Model(const ModelOptions &options);
    ~Model();  // after a cancel() that came very early in a long prompt it waits until that is cut into tokens
    Model(Model &&) noexcept;
    Model &operator=(Model &&) noexcept;

    const ModelInfo &info() const;
    ModelStats stats() const;

    // Callbacks come on the calling thread; what they throw ends the generation and is thrown on.
    Answer generate(const Request &request);

    // Ends the generate() that is running, or the next: it returns within one layer's work, in its prompt too. From any thread
    // or a signal handler.
    void cancel() noexcept;

    // Forgets the conversation.
    void reset();

    // Gives the expert cache another size; 0: none. What was cached is read again, those used most in the background until the
    // next generation; which those are is not forgotten at a size of 0. Between generations; if nothing is streamed an error.
    // After one that says that the memory is not there the cache is as it was; if it cannot be mapped there is none.
    void resize_cache(uint64_t bytes);

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace bmoe
