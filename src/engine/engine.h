// An open model with a context, ready to generate.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/expert_store.h"
#include "base/error.h"
#include "cache/memory_plan.h"
#include "cache/route_trace.h"
#include "engine/abandonable_work.h"
#include "engine/llama_handles.h"
#include "engine/model_loader.h"
#include "engine/options.h"
#include "engine/warm_start.h"
#include "llama.h"

namespace bmoe::engine {

struct ContextSetting;
struct RunMode;

// The caller wanted it.
class Cancelled : public Error {
  public:
    using Error::Error;
};

struct OpenReport {
    bool streaming = false;     // experts are streamed
    std::string mode_note;      // how the model runs, one line
    double load_seconds = 0;    // model file to weights in memory, context not included
    uint64_t dense_bytes = 0;   // of the other tensors: read at load, or mapped
    uint64_t expert_bytes = 0;  // routed experts, left on storage
    cache::MemoryPlan plan;     // of a run that was planned: one that streams, or runs resident because that fits
    bool dense_mapped = false;  // weights are, or were, in the page cache
    uint32_t n_ubatch = 0;      // prompt tokens computed at once
    bool o_direct = false;      // experts are read by direct I/O
    double disk_bandwidth = 0;  // bytes per second for reads of experts, measured when opening; 0: not measured
    std::string profile;        // file of the warm start; empty: none
    std::string route_replay;   // line that marks the output of a replay; empty otherwise
    std::string lossy;          // what makes the output another than the model's, in words; empty if nothing does
};

// Not thread-safe: one thread decodes, another may cancel().
class Engine {
  public:
    // Loads the model, makes the context, plans memory, maps the cache. Throws bmoe::Error.
    explicit Engine(const Options &options);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    const OpenReport &report() const { return report_; }
    llama_model *model() const { return model_.get(); }
    llama_context *context() const { return context_.get(); }
    const gguf::ModelFile &file() const { return *file_; }
    backend::ExpertStore *store() const { return store_.get(); }  // nullptr if nothing is streamed
    int threads() const { return threads_; }

    // Throws bmoe::Error; Cancelled soon after cancel(). llama.cpp is then still at work on the text, in another thread: the next
    // tokenize() and the destructor wait for that.
    std::vector<llama_token> tokenize(std::string text, bool with_bos);
    // Waits for a text that tokenize() has given up.
    void finish_tokenizing() { tokenizing_.finish(); }
    // May hold part of a UTF-8 character. Control tokens have no text unless `with_control`.
    std::string piece(llama_token token, bool with_control = false) const;

    // Decodes `tokens` after what the context holds. Logits of the last one follow from llama_get_logits_ith(context(), -1).
    // `on_batch` learns after each ubatch how many are done. Throws bmoe::Error, Cancelled after cancel(): the context then
    // holds what it held before the failing batch, or nothing if the model has a recurrent state, and can be used on.
    void decode(std::span<const llama_token> tokens, const std::function<void(size_t)> &on_batch = {});

    uint32_t held_tokens() const;  // in the context

    // Forgets all but the first `n` tokens, or all if the model cannot forget its last ones alone, as with a recurrent state.
    // Returns how many are held then.
    uint32_t keep_first(uint32_t n);

    // Forgets the conversation.
    void reset();

    // Ends the decode() or tokenize() that is running, or the next: it throws Cancelled within one layer's work. A text of which
    // that can be made in such a time is still made into tokens. From any thread or a signal handler.
    void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
    // Whether cancel() was called since the last time, and nothing ended by it.
    bool take_cancel() { return cancelled_.exchange(false, std::memory_order_relaxed); }

  private:
    void override_expert_count(const Options &options, const cache::RouteTrace *trace);
    void mark_lossy(const Options &options, const std::string &what);
    void replay_routes(const Options &options, const cache::RouteTrace &trace);
    void plan_memory(const Options &options, const cache::MemoryLimits &limits, ContextSetting setting,
                     std::optional<uint64_t> least_resident);
    void open_streamed(const Options &options, const cache::MemoryLimits &limits, const ContextSetting &setting,
                       const RunMode &mode, const cache::RouteTrace *trace);
    void open_plain(const Options &options, const RunMode &mode);
    void note_kernels(const Options &options) const;

    OpenReport report_;
    int threads_ = 1;
    std::unique_ptr<gguf::ModelFile> file_;
    Overrides overrides_;
    std::unique_ptr<backend::ExpertStore> store_;
    std::unique_ptr<WarmStart> warm_start_;
    bool has_decoded_ = false;
    std::atomic<bool> cancelled_{false};
    PoolPtr pool_;
    ModelPtr model_;
    ContextPtr context_;
    AbandonableWork<std::vector<llama_token>> tokenizing_;
};

}  // namespace bmoe::engine
