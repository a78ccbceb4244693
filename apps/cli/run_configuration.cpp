#include "cli/run_configuration.h"

#include <algorithm>

#include "base/error.h"
#include "bmoe_version.h"

namespace bmoe::cli {

namespace {

class Configuration {
  public:
    template <typename T>
    void add(const char *name, const T &value) {
        std::string text = cat(value);
        std::replace_if(
            text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
        entries_.emplace_back(name, std::move(text));
    }
    void add(const char *name, bool on) { entries_.emplace_back(name, on ? "on" : "off"); }

    std::vector<std::pair<std::string, std::string>> take() { return std::move(entries_); }

  private:
    std::vector<std::pair<std::string, std::string>> entries_;
};

// What makes this run slower than one without it.
std::string instruments(const RecordOptions &record) {
    std::string names;
    const auto add = [&](bool used, const char *name) {
        if (used) {
            names += names.empty() ? "" : ",";
            names += name;
        }
    };
    add(!record.route_trace.empty(), "route-trace");
    add(record.route_logits > 0, "route-logits");
    add(!record.io_trace.empty(), "io-trace");
    return names.empty() ? "none" : names;
}

const char *flash_attention(engine::FlashAttention wanted) {
    switch (wanted) {
        case engine::FlashAttention::kOn:
            return "on";
        case engine::FlashAttention::kOff:
            return "off";
        case engine::FlashAttention::kAuto:
            break;
    }
    return "auto";
}

const char *dense_weights(engine::DenseWeights where) {
    switch (where) {
        case engine::DenseWeights::kMmap:
            return "mmap";
        case engine::DenseWeights::kWarm:
            return "warm";
        case engine::DenseWeights::kAnon:
            break;
    }
    return "anon";
}

void add_generation(Configuration &to, const CommandLine &command) {
    const engine::Sampling &sampling = command.sampling;
    if (command.max_tokens == CommandLine::kAsManyAsFit) {
        to.add("max_tokens", "context");
    } else {
        to.add("max_tokens", command.max_tokens);
    }
    to.add("chat", command.chat);
    to.add("no_think", command.no_think);
    to.add("temperature", sampling.temperature);
    to.add("top_k", sampling.top_k);
    to.add("top_p", sampling.top_p);
    to.add("min_p", sampling.min_p);
    if (sampling.seed == LLAMA_DEFAULT_SEED) {
        to.add("seed", sampling.temperature > 0 ? "random" : "none");
    } else {
        to.add("seed", sampling.seed);
    }
}

void add_memory(Configuration &to, const cache::MemoryPlan &plan) {
    to.add("plan_dense_bytes", plan.items.dense);
    to.add("plan_kv_bytes", plan.items.kv);
    to.add("plan_compute_bytes", plan.items.compute);
    to.add("plan_staging_bytes", plan.items.staging);
    to.add("plan_other_bytes", plan.items.other);
    to.add("plan_slots_bytes", plan.slots);
    to.add("plan_experts_bytes", plan.experts);
}

void add_experts(Configuration &to, const engine::Engine &engine, const engine::Options &options) {
    backend::ExpertStore &store = *engine.store();
    const cache::ExpertCache &cache = *store.cache();
    const bool looks_ahead = store.lookahead().depth() > 0 && cache.policy() != nullptr;
    to.add("expert_layers", store.geometry().layers.size());
    to.add("expert_bytes", engine.report().expert_bytes);
    to.add("dense_bytes", engine.report().dense_bytes);
    to.add("dense_weights", dense_weights(options.dense_weights));
    to.add("cache_wanted", options.cache_bytes ? cat(*options.cache_bytes) : "auto");
    to.add("cache_ceiling_bytes", options.cache_ceiling_bytes > 0 ? cat(options.cache_ceiling_bytes) : "none");
    to.add("cache_floor_bytes", options.cache_floor_bytes > 0 ? cat(options.cache_floor_bytes) : "none");
    to.add("cache_bytes", cache.usage().mapped_bytes);
    to.add("cache_policy", cache.policy() != nullptr ? cache.policy()->name() : "none");
    to.add("huge_pages", cache.usage().huge_pages);
    to.add("warm_start", options.warm_start);
    to.add("profile", engine.report().profile.empty() ? "none" : engine.report().profile);
    to.add("io_threads", store.pool().lanes());
    to.add("io_engine", store.pool().engine() == io::ReadEngine::kUring ? "uring" : "lanes");
    to.add("o_direct", engine.report().o_direct ? 1 : 0);
    to.add("disk_bytes_per_s",
           engine.report().disk_bandwidth > 0 ? cat(static_cast<uint64_t>(engine.report().disk_bandwidth)) : "-1");
    to.add("overlap", store.options().overlap);
    to.add("lookahead", options.lookahead == backend::Lookahead::kAuto ? "auto" : cat(options.lookahead));
    to.add("lookahead_depth", looks_ahead ? store.lookahead().depth() : 0);
    to.add("drop_cold_experts", options.lossy.drop_cold);
    to.add("drop_in_prefill", options.lossy.drop_in_prefill);
    to.add("drop_renorm", options.lossy.drop_renorm);
    to.add("substitute_cold", options.lossy.substitute_cold);
    to.add("quality_budget", options.lossy.quality_budget >= 0 ? cat(options.lossy.quality_budget) : "none");
    to.add("route_replay", options.route_replay.empty() ? "none" : options.route_replay);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> run_configuration(const engine::Engine &engine,
                                                                   const CommandLine &command) {
    const engine::Options &options = command.engine;
    Configuration to;
    to.add("engine_version", kVersion);
    to.add("llama_cpp", kLlamaCppCommit);
    to.add("instrumented", instruments(command.record));
    to.add("model", options.model);
    to.add("mode", engine.report().streaming ? "stream" : engine.report().dense_mapped ? "mmap" : "resident");
    to.add("ram_bytes", options.ram_bytes > 0 ? cat(options.ram_bytes) : "free");
    to.add("threads", engine.threads());
    to.add("n_ctx", llama_n_ctx(engine.context()));
    to.add("n_ubatch", llama_n_ubatch(engine.context()));
    to.add("kv_type_k", options.kv_type_k);
    to.add("kv_type_v", options.kv_type_v);
    to.add("flash_attention", flash_attention(options.flash_attention));
    to.add("repack", options.repack);
    add_generation(to, command);
    if (!engine.file().expert_layers().empty()) {
        to.add("n_expert", engine.file().most_experts());
        to.add("n_expert_used", engine.file().expert_used_count());
        to.add("n_expert_used_of_model", engine.file().own_expert_used_count());
    }
    to.add("lossy", engine.report().lossy.empty() ? "none" : engine.report().lossy);
    if (engine.report().streaming) {
        add_experts(to, engine, options);
    }
    if (engine.report().plan.total() > 0) {
        add_memory(to, engine.report().plan);
    }
    return to.take();
}

}  // namespace bmoe::cli
