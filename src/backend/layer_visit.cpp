#include "backend/layer_visit.h"

#include <algorithm>

#include "backend/expert_store.h"
#include "backend/graph_tensors.h"
#include "backend/lookahead.h"
#include "backend/route_observer.h"
#include "backend/route_replay.h"
#include "base/clock.h"
#include "base/error.h"
#include "ggml.h"

namespace bmoe::backend {

namespace {

// All slices have arrived or failed.
bool is_read(const cache::Slot *slot) {
    return std::none_of(slot->slices.begin(), slot->slices.end(), [](const cache::Slice &slice) {
        return slice.state.load(std::memory_order_acquire) == cache::SliceState::kReading;
    });
}

// Of an expert that nobody has asked for: what has been read may be of use.
void keep_or_give_back(cache::ExpertCache &cache, cache::Slot *slot) {
    if (cache::is_whole(*slot)) {
        cache.publish(slot);
    } else {
        cache.give_back(slot);
    }
}

}  // namespace

LayerVisit::LayerVisit(ExpertStore &store)
    : store_(store), reads_(std::make_unique<LayerReads>(store)), ahead_(std::make_unique<LayerReads>(store)) {
    const size_t most_experts = store.geometry().most_experts();
    const size_t most_slices = store.geometry().most_slices();
    experts_.reserve(most_experts);
    first_row_.reserve(most_experts + 1);
    slots_.reserve(most_experts);
    adopted_.reserve(Lookahead::kMost);
    missed_.reserve(most_experts);
    count_.reserve(most_experts);
    slices_.reserve(most_slices);
    surplus_.reserve(most_experts);
}

LayerVisit::~LayerVisit() { close(); }

bool LayerVisit::enter(std::span<BankRef *const> banks, const ggml_tensor *ids, const ggml_tensor *weights,
                       const ggml_tensor *input) {
    if (!same_visit(banks, ids)) {
        store_.finish_warming();
        end();
        layer_ = banks.front()->layer;
        n_banks_ = static_cast<uint16_t>(store_.geometry().layers[layer_].slice_bytes.size());
        if (RouteReplay *replay = store_.route_replay()) {
            replay->apply(layer_, *ids);
        }
        if (!read_routing(ids, weights)) {
            return false;
        }
        used_ = routing_;
        if (LossyRouting *lossy = store_.lossy_routing()) {
            used_ = lossy->apply(layer_, {ids, weights, input}, routing_, weights_,
                                 [this](int32_t expert) { return residency(expert); });
        }
        group_rows();
        open_ = true;
        ids_data_ = ids->data;
        used_banks_ = 0;
        queued_banks_ = 0;
        store_.count_visit();
        take_over_reads(banks);
        place_experts(static_cast<uint32_t>(ids->ne[0]), static_cast<uint32_t>(ids->ne[1]));
        if (RouteObserver *observer = store_.route_observer()) {
            show_routing(*observer, ids, input);
        }
    }
    {
        const std::scoped_lock lock(issue_mutex_);
        for (const BankRef *bank : banks) {
            used_banks_ |= uint64_t{1} << bank->slice;
            queue_bank(bank->slice, true);
        }
        // Slots can be filled before their bank's split runs; staging rooms are too few to lie idle that long.
        for (uint16_t bank = 0; bank < n_banks_; ++bank) {
            queue_bank(bank, false);
        }
        issue();
        read_ahead(banks, input);  // takes a while: the disk is at work already
        issue();
    }
    return true;
}

bool LayerVisit::same_visit(std::span<BankRef *const> banks, const ggml_tensor *ids) const {
    return open_ && banks.front()->layer == layer_ && ids->data == ids_data_ &&
           std::none_of(banks.begin(), banks.end(),
                        [&](const BankRef *bank) { return (used_banks_ >> bank->slice & 1) != 0; });
}

bool LayerVisit::read_routing(const ggml_tensor *ids, const ggml_tensor *weights) {
    const auto n_expert = static_cast<int32_t>(store_.geometry().layers[layer_].n_expert);
    const auto top_k = static_cast<int32_t>(ids->ne[0]);
    const auto n_tokens = static_cast<int32_t>(ids->ne[1]);
    routing_.clear();
    weights_.clear();
    for (int32_t token = 0; token < n_tokens; ++token) {
        for (int32_t rank = 0; rank < top_k; ++rank) {
            const auto expert = element<int32_t>(*ids, rank, token);
            if (expert < 0 || expert >= n_expert) {
                store_.report_error(cat("layer ", store_.model().expert_layers()[layer_].block,
                                        ": the router chose expert ", expert, " of ", n_expert,
                                        ": the model file or its metadata is damaged"));
                return false;
            }
            routing_.push_back(expert);
            if (weights != nullptr) {
                weights_.push_back(element<float>(*weights, 0, rank, token));
            }
        }
    }
    return true;
}

// Whether the expert of the layer that is about to be visited would have to be read.
cache::Residency LayerVisit::residency(int32_t expert) const {
    const cache::ExpertId id{layer_, static_cast<uint16_t>(expert)};
    if (store_.cache()->resident(id)) {
        return cache::Residency::kResident;
    }
    const bool is_ahead = reads_ahead_ && ahead_->layer() == layer_ && ahead_->is_begun(id.expert);
    return is_ahead || store_.lookahead().has_arrived(id) ? cache::Residency::kComing : cache::Residency::kCold;
}

// Finds out which experts are used, in experts_ ascending, and by how many rows.
void LayerVisit::group_rows() {
    const auto n_expert = static_cast<int32_t>(store_.geometry().layers[layer_].n_expert);
    count_.assign(n_expert, 0);
    for (const int32_t expert : used_) {
        if (expert != cache::kDropped) {
            ++count_[expert];
        }
    }
    experts_.clear();
    for (int32_t expert = 0; expert < n_expert; ++expert) {
        if (count_[expert] > 0) {
            experts_.push_back(expert);
        }
    }
}

// Goes on with what was read ahead, if it was for this layer.
void LayerVisit::take_over_reads(std::span<BankRef *const> banks) {
    surplus_.clear();
    if (!reads_ahead_ || ahead_->layer() != layer_) {
        drop_ahead();
        reads_->begin(layer_);
        return;
    }
    reads_ahead_ = false;
    std::swap(reads_, ahead_);
    reads_->drop_unissued();
    reads_->drop_unrouted(count_);
    // A room that holds what is needed last is lost for what is needed first.
    if (!std::equal(banks.begin(), banks.end(), ahead_banks_.begin(), ahead_banks_.end(),
                    [](const BankRef *bank, uint16_t slice) { return bank->slice == slice; })) {
        reads_->cancel_staged();
        reads_->await();
        reads_->give_back_rooms();
    }
    store_.count_read_ahead(reads_->demand(count_));
    for (size_t expert = 0; expert < count_.size(); ++expert) {
        cache::Slot *slot = reads_->slot(static_cast<uint16_t>(expert));
        if (slot != nullptr && count_[expert] == 0) {
            surplus_.push_back(slot);
        }
    }
}

// Moves the expert at `index` to `place`, before those that it passes; returns the place after it.
size_t LayerVisit::place_first(size_t place, size_t index) {
    std::rotate(experts_.begin() + place, experts_.begin() + index, experts_.begin() + index + 1);
    std::rotate(slots_.begin() + place, slots_.begin() + index, slots_.begin() + index + 1);
    return place + 1;
}

void LayerVisit::place_experts(uint32_t top_k, uint32_t n_tokens) {
    const cache::Phase phase = n_tokens > 1 ? cache::Phase::kPrefill : cache::Phase::kDecode;
    cache::ExpertCache &cache = *store_.mutable_cache();
    cache.visit({layer_, n_tokens, top_k, routing_, weights_, phase});

    // Hits are pinned before anything is admitted, so that no admission evicts them. They come first in the order of work.
    slots_.clear();
    for (const int32_t expert : experts_) {
        slots_.push_back(cache.find_and_pin({layer_, static_cast<uint16_t>(expert)}));
    }
    const size_t n = experts_.size();
    size_t done = 0;
    for (size_t i = 0; i < n; ++i) {
        if (slots_[i] != nullptr) {
            done = place_first(done, i);
        }
    }
    hits_ = done;
    missed_.assign(n, false);
    // Then those whose reads are ahead of the others: what the last layer of a prompt began, and guesses.
    for (size_t i = done; i < n; ++i) {
        const auto expert = static_cast<uint16_t>(experts_[i]);
        cache::Slot *slot = reads_->slot(expert);
        if (slot != nullptr) {
            cache.adopt(slot);
        } else if (!reads_->is_begun(expert)) {
            continue;
        }
        slots_[i] = slot;
        missed_[done] = true;
        done = place_first(done, i);
    }
    store_.lookahead().settle(layer_, experts_);
    adopted_.clear();
    for (size_t i = done; i < n; ++i) {
        slots_[i] = store_.lookahead().take({layer_, static_cast<uint16_t>(experts_[i])});
        if (slots_[i] != nullptr) {
            adopted_.push_back(slots_[i]);
            done = place_first(done, i);
        }
    }
    for (size_t i = done; i < n; ++i) {
        slots_[i] = cache.admit({layer_, static_cast<uint16_t>(experts_[i])}, phase);
        reads_->set_slot(static_cast<uint16_t>(experts_[i]), slots_[i]);
        missed_[i] = true;
    }

    slices_.resize(n * n_banks_);
    for (size_t i = 0; i < n; ++i) {
        for (uint16_t bank = 0; bank < n_banks_; ++bank) {
            slices_[i * n_banks_ + bank] = slots_[i] != nullptr
                                               ? &slots_[i]->slices[bank]
                                               : &reads_->slice(static_cast<uint16_t>(experts_[i]), bank);
        }
    }

    first_row_.assign(n + 1, 0);
    std::vector<uint32_t> &index_of = count_;  // the counts have served; reuse as expert id -> index
    for (size_t i = 0; i < n; ++i) {
        first_row_[i + 1] = first_row_[i] + index_of[experts_[i]];
        index_of[experts_[i]] = static_cast<uint32_t>(i);
    }
    const uint32_t n_rows = first_row_[n];
    rows_.resize(n_rows);
    dropped_rows_.clear();
    for (size_t r = used_.size(); r-- > 0;) {
        const RoutedRow row{static_cast<int32_t>(r % top_k), static_cast<int32_t>(r / top_k)};
        if (used_[r] == cache::kDropped) {
            dropped_rows_.push_back(row);
        } else {
            // Filled from the back, first_row_[i + 1] serves as the cursor of expert i and ends at its first row.
            rows_[--first_row_[index_of[used_[r]] + 1]] = row;
        }
    }
    first_row_.erase(first_row_.begin());
    first_row_.push_back(n_rows);
}

void LayerVisit::show_routing(RouteObserver &observer, const ggml_tensor *ids, const ggml_tensor *input) const {
    observer.on_routing({layer_, static_cast<uint32_t>(ids->ne[1]), static_cast<uint32_t>(ids->ne[0]), routing_, used_,
                         weights_, std::span(experts_).first(hits_), input},
                        store_.lookahead().routers());
}

// Appends the bank's reads, in file order. Called once per bank for its slots and once for its staged slices, in either order
// of the two when the bank belongs to a later split of the visit.
void LayerVisit::queue_bank(uint16_t bank, bool with_staged) {
    const bool with_slots = (queued_banks_ >> bank & 1) == 0;
    queued_banks_ |= uint64_t{1} << bank;
    for (uint32_t i = 0; i < experts_.size(); ++i) {
        const bool staged = slots_[i] == nullptr;
        const bool is_ahead = slice(i, bank).state.load(std::memory_order_relaxed) != cache::SliceState::kEmpty;
        if (missed_[i] && !is_ahead && (staged ? with_staged : with_slots)) {
            reads_->queue(static_cast<uint16_t>(experts_[i]), bank);
        }
    }
}

// Whether reading was what the last visit waited for. Where it is not, reading ahead would only cost.
bool LayerVisit::has_stalled() {
    constexpr uint64_t kShare = 20;  // of the time
    const uint64_t now = now_ns();
    const uint64_t stall = store_.stall_ns();
    const bool stalled = (stall - last_stall_ns_) * kShare >= now - last_ns_;
    last_ns_ = now;
    last_stall_ns_ = stall;
    return stalled;
}

// Prepares reading the experts of the next layer that a prompt will probably select and that are not resident. Not of the last
// layer, which llama.cpp computes for tokens only whose logits are wanted.
void LayerVisit::read_ahead(std::span<BankRef *const> banks, const ggml_tensor *input) {
    // Tokens that are asked for their selection; each costs a router's product.
    constexpr int64_t kMostRows = 32;
    const auto next = static_cast<uint16_t>(layer_ + 1);
    const auto &layers = store_.geometry().layers;
    RouterGuess &routers = store_.lookahead().routers();
    if (reads_ahead_ || input == nullptr || input->ne[2] < 2 || store_.lookahead().depth() == 0 || !has_stalled() ||
        banks.size() != n_banks_ || next >= layers.size() || layers[next].slice_bytes.size() != n_banks_ ||
        !routers.knows(next) || !routers.knows(next + 1) ||
        !routers.votes(next, *input, kMostRows, layers[next].top_k, votes_)) {
        return;
    }
    cache::ExpertCache &cache = *store_.mutable_cache();
    reads_ahead_ = true;
    ahead_->begin(next);
    ahead_experts_.clear();
    for (uint32_t e = 0; e < layers[next].n_expert; ++e) {
        const cache::ExpertId id{next, static_cast<uint16_t>(e)};
        if (votes_[e] == 0 || cache.resident(id)) {
            continue;
        }
        cache::Slot *slot = cache.reserve(id);
        ahead_->set_slot(id.expert, slot);
        // One that will be admitted is left to its visit, which has the slot for it.
        if (slot != nullptr || !cache.would_admit(id)) {
            ahead_experts_.push_back(id.expert);
        }
    }
    // What passes through staging misses its chance to be admitted: that should be the experts that are used least, and few.
    std::stable_sort(ahead_experts_.begin(), ahead_experts_.end(),
                     [&](uint16_t a, uint16_t b) { return votes_[a] < votes_[b]; });
    ahead_banks_.clear();
    for (const BankRef *bank : banks) {
        ahead_banks_.push_back(bank->slice);
    }
    for (const uint16_t expert : ahead_experts_) {
        for (const uint16_t bank : ahead_banks_) {
            ahead_->queue(expert, bank);
        }
    }
}

// Issues what memory there is for. issue_mutex_ is held.
void LayerVisit::issue() {
    reads_->issue(io::Priority::kDemand);
    if (reads_ahead_ && reads_->has_issued_all()) {
        ahead_->issue(io::Priority::kSpeculative);
    }
}

void LayerVisit::release(uint32_t index, uint16_t bank) {
    if (slots_[index] != nullptr) {
        return;
    }
    const std::scoped_lock lock(issue_mutex_);
    reads_->give_back_room(static_cast<uint16_t>(experts_[index]), bank);
    issue();
}

void LayerVisit::await_reads() {
    for (;;) {
        const uint32_t seen = arrivals_.load(std::memory_order_acquire);
        const bool adopted_are_here = std::all_of(adopted_.begin(), adopted_.end(), is_read);
        if (!reads_->is_under_way() && adopted_are_here) {
            return;
        }
        arrivals_.wait(seen, std::memory_order_acquire);
    }
}

void LayerVisit::end() {
    if (!open_) {
        return;
    }
    await_reads();
    open_ = false;
    reads_->give_back_rooms();
    cache::ExpertCache &cache = *store_.mutable_cache();
    for (cache::Slot *slot : slots_) {
        if (slot == nullptr) {
            continue;
        }
        if (cache::is_whole(*slot)) {
            cache.unpin(slot);
        } else {
            cache.discard(slot);
        }
    }
    for (cache::Slot *slot : surplus_) {
        keep_or_give_back(cache, slot);
    }
    surplus_.clear();
}

void LayerVisit::drop_ahead() {
    if (!reads_ahead_) {
        return;
    }
    reads_ahead_ = false;
    ahead_->cancel_all();
    ahead_->await();
    ahead_->give_back_rooms();
    const uint32_t n_expert = store_.geometry().layers[ahead_->layer()].n_expert;
    for (uint32_t expert = 0; expert < n_expert; ++expert) {
        if (cache::Slot *slot = ahead_->slot(static_cast<uint16_t>(expert))) {
            keep_or_give_back(*store_.mutable_cache(), slot);
        }
    }
}

void LayerVisit::close() {
    end();
    drop_ahead();
}

}  // namespace bmoe::backend
