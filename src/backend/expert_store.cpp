#include "backend/expert_store.h"

#include <algorithm>
#include <utility>

#include "backend/layer_visit.h"
#include "backend/route_replay.h"
#include "base/clock.h"
#include "base/error.h"

namespace bmoe::backend {

namespace {

uint64_t rounded_slice(uint64_t bytes, uint64_t block) { return (bytes + block - 1) / block * block + block; }

uint64_t widest_slice(const cache::Geometry &geometry) {
    uint64_t widest = 0;
    for (const auto &layer : geometry.layers) {
        for (const uint64_t bytes : layer.slice_bytes) {
            widest = std::max(widest, rounded_slice(bytes, geometry.block_size));
        }
    }
    return widest;
}

// As many rooms as a token's experts have slices, so that without a cache all reads of a layer can be in flight at once.
uint32_t staging_rooms(const cache::Geometry &geometry, int lanes) {
    size_t rooms = static_cast<size_t>(lanes) * 2;
    for (const auto &layer : geometry.layers) {
        rooms = std::max(rooms, layer.top_k * layer.slice_bytes.size());
    }
    return static_cast<uint32_t>(rooms);
}

cache::Geometry geometry_of(const gguf::ModelFile &model) {
    cache::Geometry geometry;
    for (const auto &shard : model.shards()) {
        geometry.block_size = std::max(geometry.block_size, shard->block_size());
    }
    for (const auto &layer : model.expert_layers()) {
        cache::LayerGeometry shape;
        shape.n_expert = layer.n_expert;
        shape.top_k = std::min(layer.n_expert, std::max<uint32_t>(1, model.expert_used_count()));
        for (const auto &bank : layer.banks) {
            shape.slice_bytes.push_back(bank.bytes_per_expert);
        }
        geometry.layers.push_back(std::move(shape));
    }
    return geometry;
}

}  // namespace

StoreCounters StoreCounters::since(const StoreCounters &earlier) const {
    return {cache.since(earlier.cache),
            reads.since(earlier.reads),
            lookahead.since(earlier.lookahead),
            lossy.since(earlier.lossy),
            visits - earlier.visits,
            staged_slices - earlier.staged_slices,
            read_ahead - earlier.read_ahead,
            stall_ns - earlier.stall_ns,
            expert_ns - earlier.expert_ns,
            splits - earlier.splits,
            cached_splits - earlier.cached_splits,
            cached_ns - earlier.cached_ns,
            compute_ns - earlier.compute_ns};
}

ExpertStore::ExpertStore(const gguf::ModelFile &model, const StoreOptions &options)
    : model_(model), options_(options), geometry_(geometry_of(model)), pool_(options.io_threads, options.io_engine) {
    const auto &layers = model.expert_layers();
    size_t n_banks = 0;
    for (const auto &layer : layers) {
        n_banks += layer.banks.size();
    }
    banks_.reserve(n_banks);  // by_name_ points into it
    for (size_t l = 0; l < layers.size(); ++l) {
        layer_of_block_.emplace(layers[l].block, static_cast<uint16_t>(l));
        for (size_t s = 0; s < layers[l].banks.size(); ++s) {
            BankRef ref;
            ref.store = this;
            ref.bank = &layers[l].banks[s];
            ref.layer = static_cast<uint16_t>(l);
            ref.slice = static_cast<uint16_t>(s);
            banks_.push_back(ref);
            by_name_.emplace(ref.bank->tensor, &banks_.back());
        }
    }
    visit_ = std::make_unique<LayerVisit>(*this);
    lookahead_ = std::make_unique<Lookahead>(*this);
    lookahead_->set_depth(options.lookahead);
    if (options.lossy.any()) {
        lossy_ = std::make_unique<LossyRouting>(options.lossy, geometry_, lookahead_->routers());
    }
}

ExpertStore::~ExpertStore() {
    warmer_.reset();
    visit_->close();
    lookahead_->clear();
    pool_.drain();
}

BankRef *ExpertStore::bank(std::string_view tensor) {
    const auto it = by_name_.find(tensor);
    return it == by_name_.end() ? nullptr : it->second;
}

uint64_t ExpertStore::staging_bytes() const {
    return Staging::bytes(staging_rooms(geometry_, options_.io_threads), widest_slice(geometry_));
}

void ExpertStore::set_cache(uint64_t budget, cache::PolicyKind policy) {
    learned_ = learned_frequencies();
    warmer_.reset();
    warmed_bytes_ = 0;
    visit_->close();
    lookahead_->clear();
    pool_.drain();
    cache_.reset();
    staging_.reset();
    staging_ = std::make_unique<Staging>(staging_rooms(geometry_, options_.io_threads), widest_slice(geometry_));
    try {
        cache_ = std::make_unique<cache::ExpertCache>(geometry_, budget, policy);
    } catch (...) {
        cache_ = std::make_unique<cache::ExpertCache>(geometry_, 0, policy);
        throw;
    }
    // Those being read for the next layer, and those of the layer before that turned out wrong and are still being read.
    cache_->reserve_for_guesses(static_cast<uint32_t>(2 * lookahead_->depth()));
    cache_->prefault_ahead();
}

std::vector<float> ExpertStore::learned_frequencies() const {
    const cache::Policy *policy = cache_ != nullptr ? cache_->policy() : nullptr;
    return policy != nullptr ? policy->frequencies() : learned_;
}

void ExpertStore::start_warming(std::span<const float> frequencies, uint64_t most_bytes,
                                std::function<void(const WarmReport &)> on_finished) {
    cache_->start_from(frequencies);
    on_warmed_ = std::move(on_finished);
    warmer_ = std::make_unique<CacheWarmer>(model_, *cache_, pool_, frequencies, most_bytes);
}

void ExpertStore::end_warming() {
    const WarmReport report = warmer_->finish();
    warmer_.reset();
    warmed_bytes_ = report.bytes;
    on_warmed_(report);
}

void ExpertStore::set_route_replay(std::unique_ptr<RouteReplay> replay) { route_replay_ = std::move(replay); }

StoreCounters ExpertStore::counters() const {
    StoreCounters counters;
    if (cache_ != nullptr) {
        counters.cache = cache_->counters();
    }
    counters.reads = pool_.counters();
    counters.lookahead = lookahead_->counters();
    if (lossy_ != nullptr) {
        counters.lossy = lossy_->counters();
    }
    counters.visits = visits_;
    counters.staged_slices = staged_;
    counters.read_ahead = read_ahead_;
    counters.stall_ns = stall_ns_;
    counters.expert_ns = expert_ns_;
    counters.splits = splits_;
    counters.cached_splits = cached_splits_;
    counters.cached_ns = cached_ns_;
    counters.compute_ns = compute_ns_.load(std::memory_order_relaxed);
    return counters;
}

void ExpertStore::set_in_prompt(bool on) {
    if (lossy_ != nullptr) {
        lossy_->set_in_prompt(on);
    }
    if (route_replay_ != nullptr) {
        route_replay_->set_in_prompt(on);
    }
}

void ExpertStore::give_up_visit() {
    if (visit_ != nullptr) {
        visit_->close();
    }
    take_error();
}

std::optional<std::string> ExpertStore::take_error() {
    if (has_error()) {
        visit_->close();  // what is still being read may fail too, and is not the error of what comes next
    }
    const std::scoped_lock lock(error_mutex_);
    if (!failed_.load(std::memory_order_acquire)) {
        return std::nullopt;
    }
    failed_.store(false, std::memory_order_release);
    return std::move(error_);
}

void ExpertStore::count_split(uint64_t ns, bool cached) {
    expert_ns_ += ns;
    ++splits_;
    cached_splits_ += cached ? 1 : 0;
    cached_ns_ += cached ? ns : 0;
}

void ExpertStore::await_demand() {
    const uint64_t start = now_ns();
    visit_->await_reads();
    add_stall(now_ns() - start);
}

void ExpertStore::look_at_node(const ggml_tensor *node) {
    for (const ggml_tensor *source : {node->src[0], node->src[1]}) {
        if (source == nullptr || router_part(source) == RouterPart::kNone) {
            continue;
        }
        if (const auto it = layer_of_block_.find(block_of(source->name)); it != layer_of_block_.end()) {
            lookahead_->routers().look_at(node, it->second);
        }
    }
}

void ExpertStore::report_error(const std::string &error) {
    const std::scoped_lock lock(error_mutex_);
    if (!failed_.load(std::memory_order_acquire)) {
        error_ = error;
        failed_.store(true, std::memory_order_release);
    }
}

}  // namespace bmoe::backend
