// An open model with a context, ready to generate.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/expert_store.h"
#include "cache/memory_plan.h"
#include "cache/route_trace.h"
#include "engine/options.h"
#include "engine/warm_start.h"
#include "llama.h"

namespace bmoe::engine {

struct OpenReport {
    bool streaming = false;         // experts are streamed
    std::string mode_note;          // how the model runs, one line
    double load_seconds = 0;        // model file to weights in memory, context not included
    uint64_t dense_bytes_read = 0;  // tensor data read at load
    uint64_t expert_bytes = 0;      // routed experts, left on storage
    cache::MemoryPlan plan;         // of a streaming run
    uint32_t n_ubatch = 0;          // prompt tokens computed at once
    bool o_direct = false;          // experts are read by direct I/O
    double disk_bandwidth = 0;      // bytes per second for reads of experts, measured when opening; 0: not measured
    std::string route_replay;       // line that marks the output of a replay; empty otherwise
};

// What Options::kv_type_k and kv_type_v may be.
const std::vector<std::string> &kv_types();

// Not thread-safe: one thread decodes. cancel-like control is by the callbacks.
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
    backend::ExpertStore *store() const { return store_.get(); }  // nullptr if nothing is streamed
    int threads() const { return threads_; }

    std::vector<llama_token> tokenize(const std::string &text, bool with_bos) const;
    std::string piece(llama_token token) const;  // may hold part of a UTF-8 character

    // Decodes `tokens` after what the context holds. Logits of the last one follow from llama_get_logits_ith(context(), -1).
    // Throws bmoe::Error: the context then holds what it held before the failing batch, and can be used on.
    void decode(std::span<const llama_token> tokens);

    // Forgets the conversation.
    void reset();

  private:
    struct FreeModel {
        void operator()(llama_model *model) const { llama_model_free(model); }
    };
    struct FreeContext {
        void operator()(llama_context *context) const { llama_free(context); }
    };
    struct FreePool {
        void operator()(ggml_threadpool *pool) const;
    };
    using ModelPtr = std::unique_ptr<llama_model, FreeModel>;
    using ContextPtr = std::unique_ptr<llama_context, FreeContext>;
    // Loads through the virtual GGUF, or with `measure_only` simulates it: no weights are read, nothing large is allocated.
    ModelPtr load_from_stream(const Options &options, bool measure_only);
    void load_plain(const Options &options);
    void override_expert_count(const Options &options, const cache::RouteTrace *trace);
    void replay_routes(const Options &options, const cache::RouteTrace &trace);
    ContextPtr make_context(const Options &options, llama_model *model, uint32_t n_ubatch) const;
    cache::MemoryItems measure_memory(const Options &options, llama_model *model, uint32_t n_ubatch) const;
    cache::MemoryPlan make_plan(const Options &options, llama_model *model, uint32_t n_ubatch, uint64_t limit) const;
    void plan_memory(const Options &options, const cache::MemoryLimits &limits);
    void note_kernels(const Options &options) const;
    void note(const Options &options, const std::string &line) const;

    OpenReport report_;
    int threads_ = 1;
    std::unique_ptr<gguf::ModelFile> file_;
    std::vector<llama_model_kv_override> overrides_;  // of metadata, for llama.cpp; ends with an empty key, or is empty
    std::unique_ptr<backend::ExpertStore> store_;
    std::unique_ptr<WarmStart> warm_start_;
    bool has_decoded_ = false;
    std::unique_ptr<ggml_threadpool, FreePool> pool_;
    ModelPtr model_;
    ContextPtr context_;
};

}  // namespace bmoe::engine
