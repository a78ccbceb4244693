// The streamed experts of one open model: where they lie on disk, the cache in front of them, the lanes that fetch them, and
// the error that ended a generation. The ggml buffer of a model's expert tensors points here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/cache_warmer.h"
#include "backend/lookahead.h"
#include "backend/lossy_routing.h"
#include "backend/staging.h"
#include "cache/expert_cache.h"
#include "cache/geometry.h"
#include "gguf/model_file.h"
#include "io/read_pool.h"

namespace bmoe::backend {

class ExpertStore;
class LayerVisit;
class RouteObserver;
class RouteReplay;

// What a placed expert tensor carries in ggml_tensor::extra.
struct BankRef {
    ExpertStore *store = nullptr;
    const gguf::Bank *bank = nullptr;
    uint16_t layer = 0;   // index into ModelFile::expert_layers()
    uint16_t slice = 0;   // index into that layer's banks, and into Slot::slices
    bool placed = false;  // llama.cpp put the tensor into the expert buffer
};

struct StoreOptions {
    int io_threads = 4;
    io::ReadEngine io_engine = io::ReadEngine::kAuto;
    // Off: a layer's reads are awaited before its computation starts, as far as memory holds them. For measurement.
    bool overlap = true;
    // Experts of the next layer that are read ahead on the router's guess; 0: none; Lookahead::kAuto.
    int lookahead = 0;
    // Off by default: the routing is the router's.
    LossyOptions lossy = {};
};

// Times are summed over the layers' graph splits, measured on the thread that runs them.
struct StoreCounters {
    cache::CacheCounters cache;
    io::ReadCounters reads;
    LookaheadCounters lookahead;
    LossyCounters lossy;
    uint64_t visits = 0;         // layers visited
    uint64_t staged_slices = 0;  // slices read past the cache
    uint64_t read_ahead = 0;     // slices of a prompt whose reading was asked for before its layer's routing was known
    uint64_t stall_ns = 0;       // nothing was ready to compute: waiting for demand reads
    uint64_t expert_ns = 0;      // time in expert splits, stalls included
    uint64_t splits = 0;         // computed
    uint64_t cached_splits = 0;  // of these: all experts were resident
    uint64_t cached_ns = 0;      // time in these
    uint64_t compute_ns = 0;     // multiplying by experts, summed over the compute threads

    StoreCounters since(const StoreCounters &earlier) const;
};

// The thread that decodes calls everything except where noted; lanes only publish slices.
class ExpertStore {
  public:
    // `model` must outlive the store. Throws bmoe::Error for lossy options that make no sense.
    ExpertStore(const gguf::ModelFile &model, const StoreOptions &options);
    ~ExpertStore();
    ExpertStore(const ExpertStore &) = delete;
    ExpertStore &operator=(const ExpertStore &) = delete;

    const gguf::ModelFile &model() const { return model_; }
    const cache::Geometry &geometry() const { return geometry_; }
    const StoreOptions &options() const { return options_; }
    void set_overlap(bool on) { options_.overlap = on; }

    // The bank of this name, or nullptr.
    BankRef *bank(std::string_view tensor);
    const std::vector<BankRef> &banks() const { return banks_; }

    // Bytes of staging memory that set_cache will map.
    uint64_t staging_bytes() const;

    // Maps the staging memory and a cache of `budget` bytes (0: none), dropping what was cached before. Not during a decode.
    // Throws bmoe::Error.
    void set_cache(uint64_t budget, cache::PolicyKind policy);
    const cache::ExpertCache *cache() const { return cache_.get(); }

    // How often experts were used, as the policy has it; without a cache, which learns nothing, as the last one left it. Empty if
    // none ever counted it.
    std::vector<float> learned_frequencies() const;

    // Starts from the `frequencies` of an earlier run (cache::Policy::frequencies): the policy takes them over, and up to
    // `most_bytes` of the experts used most are read into free slots, from now on until the first visit. `on_finished` is then
    // called, on the thread that decodes. After set_cache() and before the first visit; the next set_cache() ends it.
    void start_warming(std::span<const float> frequencies, uint64_t most_bytes,
                       std::function<void(const WarmReport &)> on_finished);
    uint64_t warmed_bytes() const { return warmed_bytes_; }  // of experts that became resident that way
    // Experts of decoded tokens are those of `replay` from now on, not the router's. Not during a decode.
    void set_route_replay(std::unique_ptr<RouteReplay> replay);
    RouteReplay *route_replay() const { return route_replay_.get(); }  // nullptr without
    // `observer` learns of the routing of every visit from now on; nullptr: nobody. It must outlive the store otherwise.
    void set_route_observer(RouteObserver *observer) { route_observer_ = observer; }
    RouteObserver *route_observer() const { return route_observer_; }

    StoreCounters counters() const;

    // The first error since the last call, if any. A generation that ended with an error may be followed by another.
    std::optional<std::string> take_error();

    // What is decoded from now on is a prompt's, or not: a batch of one token does not tell.
    void set_in_prompt(bool on);

    // After a decode that ended early: waits for its reads that are under way, and forgets whether they failed.
    void give_up_visit();

    // --- for the executor ---
    void finish_warming() {  // before a visit uses the cache
        if (warmer_ != nullptr) {
            end_warming();
        }
    }
    cache::ExpertCache *mutable_cache() { return cache_.get(); }
    LayerVisit &visit() { return *visit_; }
    Lookahead &lookahead() { return *lookahead_; }
    LossyRouting *lossy_routing() { return lossy_.get(); }  // nullptr if it is off
    io::ReadPool &pool() { return pool_; }
    Staging &staging() { return *staging_; }
    void report_error(const std::string &error);  // thread-safe; keeps the first
    // A node of a context's graph, as it is made: routers are learned from it.
    void look_at_node(const ggml_tensor *node);
    bool has_error() const { return failed_.load(std::memory_order_acquire); }  // thread-safe
    void add_stall(uint64_t ns) { stall_ns_ += ns; }
    uint64_t stall_ns() const { return stall_ns_; }
    void add_compute(uint64_t ns) { compute_ns_.fetch_add(ns, std::memory_order_relaxed); }  // thread-safe
    void count_split(uint64_t ns, bool cached);
    void count_visit() { ++visits_; }
    void await_demand();  // waits for the reads of the visit, and counts it as a stall
    void count_staged() { ++staged_; }
    void count_read_ahead(uint64_t slices) { read_ahead_ += slices; }

  private:
    void end_warming();

    const gguf::ModelFile &model_;
    StoreOptions options_;
    cache::Geometry geometry_;
    std::vector<BankRef> banks_;
    std::unordered_map<std::string_view, BankRef *> by_name_;
    std::unique_ptr<Staging> staging_;
    std::unique_ptr<cache::ExpertCache> cache_;
    std::vector<float> learned_;  // frequencies of the cache before this one
    std::unique_ptr<LayerVisit> visit_;
    std::unique_ptr<Lookahead> lookahead_;
    std::unique_ptr<LossyRouting> lossy_;  // uses the routers of lookahead_
    std::unordered_map<int, uint16_t> layer_of_block_;
    std::unique_ptr<CacheWarmer> warmer_;
    std::function<void(const WarmReport &)> on_warmed_;
    uint64_t warmed_bytes_ = 0;
    std::unique_ptr<RouteReplay> route_replay_;
    RouteObserver *route_observer_ = nullptr;
    uint64_t visits_ = 0;
    uint64_t staged_ = 0;
    uint64_t read_ahead_ = 0;
    uint64_t stall_ns_ = 0;
    uint64_t expert_ns_ = 0;
    uint64_t splits_ = 0;
    uint64_t cached_splits_ = 0;
    uint64_t cached_ns_ = 0;
    std::atomic<uint64_t> compute_ns_{0};
    std::mutex error_mutex_;
    std::string error_;
    std::atomic<bool> failed_{false};
    io::ReadPool pool_;  // last: its lanes stop before anything they write to goes away
};

}  // namespace bmoe::backend
