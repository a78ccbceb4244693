#include "backend/layer_visit.h"

#include <algorithm>

#include "backend/expert_store.h"
#include "backend/lookahead.h"
#include "backend/route_replay.h"
#include "backend/slice_read.h"
#include "base/error.h"
#include "ggml.h"

namespace bmoe::backend {

namespace {

template <typename T>
T element(const ggml_tensor &tensor, int64_t i0, int64_t i1, int64_t i2 = 0) {
    const auto *at = static_cast<const char *>(tensor.data) + i0 * tensor.nb[0] + i1 * tensor.nb[1] + i2 * tensor.nb[2];
    return *reinterpret_cast<const T *>(at);
}

// All slices have arrived or failed.
bool is_read(const cache::Slot *slot) {
    return std::none_of(slot->slices.begin(), slot->slices.end(), [](const cache::Slice &slice) {
        return slice.state.load(std::memory_order_acquire) == cache::SliceState::kReading;
    });
}

}  // namespace

LayerVisit::LayerVisit(ExpertStore &store) : store_(store) {
    size_t most_experts = 0;
    size_t most_slices = 0;
    for (const auto &layer : store.geometry().layers) {
        most_experts = std::max<size_t>(most_experts, layer.n_expert);
        most_slices = std::max(most_slices, layer.n_expert * layer.slice_bytes.size());
    }
    experts_.reserve(most_experts);
    first_row_.reserve(most_experts + 1);
    slots_.reserve(most_experts);
    adopted_.reserve(Lookahead::kMost);
    missed_.reserve(most_experts);
    count_.reserve(most_experts);
    slices_.reserve(most_slices);
    jobs_.reserve(most_slices);
    to_issue_.reserve(most_slices);
    staged_slices_ = std::make_unique<cache::Slice[]>(most_slices);
    reads_.resize(most_slices);
}

LayerVisit::~LayerVisit() { close(); }

bool LayerVisit::enter(std::span<BankRef *const> banks, const ggml_tensor *ids, const ggml_tensor *weights) {
    if (!same_visit(banks, ids)) {
        store_.finish_warming();
        close();
        layer_ = banks.front()->layer;
        n_banks_ = static_cast<uint16_t>(store_.geometry().layers[layer_].slice_bytes.size());
        if (RouteReplay *replay = store_.route_replay()) {
            replay->apply(layer_, *ids);
        }
        if (!group_rows(ids)) {
            return false;
        }
        open_ = true;
        ids_data_ = ids->data;
        used_banks_ = 0;
        queued_banks_ = 0;
        store_.count_visit();
        place_experts(ids, weights);
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
        pump();
    }
    return true;
}

bool LayerVisit::same_visit(std::span<BankRef *const> banks, const ggml_tensor *ids) const {
    return open_ && banks.front()->layer == layer_ && ids->data == ids_data_ &&
           std::none_of(banks.begin(), banks.end(),
                        [&](const BankRef *bank) { return (used_banks_ >> bank->slice & 1) != 0; });
}

// Groups the routing by expert: experts_ ascending, rows_ expert after expert in the order of the ids.
bool LayerVisit::group_rows(const ggml_tensor *ids) {
    const auto n_expert = static_cast<int32_t>(store_.geometry().layers[layer_].n_expert);
    const auto top_k = static_cast<int32_t>(ids->ne[0]);
    const auto n_tokens = static_cast<int32_t>(ids->ne[1]);
    routing_.clear();
    count_.assign(n_expert, 0);
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
            ++count_[expert];
        }
    }
    experts_.clear();
    for (int32_t expert = 0; expert < n_expert; ++expert) {
        if (count_[expert] > 0) {
            experts_.push_back(expert);
        }
    }
    return true;
}

void LayerVisit::place_experts(const ggml_tensor *ids, const ggml_tensor *weights) {
    const auto top_k = static_cast<uint32_t>(ids->ne[0]);
    const auto n_tokens = static_cast<uint32_t>(ids->ne[1]);
    const cache::Phase phase = n_tokens > 1 ? cache::Phase::kPrefill : cache::Phase::kDecode;
    weights_.clear();
    if (weights != nullptr) {
        for (uint32_t token = 0; token < n_tokens; ++token) {
            for (uint32_t rank = 0; rank < top_k; ++rank) {
                weights_.push_back(element<float>(*weights, 0, rank, token));
            }
        }
    }
    cache::ExpertCache &cache = *store_.mutable_cache();
    cache.visit({layer_, n_tokens, top_k, routing_, weights_, phase});

    // Hits are pinned before anything is admitted, so that no admission evicts them. They come first in the order of work.
    slots_.clear();
    for (const int32_t expert : experts_) {
        slots_.push_back(cache.find_and_pin({layer_, static_cast<uint16_t>(expert)}));
    }
    const size_t n = experts_.size();
    size_t hits = 0;
    for (size_t i = 0; i < n; ++i) {
        if (slots_[i] != nullptr) {
            std::rotate(experts_.begin() + hits, experts_.begin() + i, experts_.begin() + i + 1);
            std::rotate(slots_.begin() + hits, slots_.begin() + i, slots_.begin() + i + 1);
            ++hits;
        }
    }
    missed_.assign(n, false);
    // Guesses come before other misses, since their reads are ahead.
    store_.lookahead().settle(layer_, experts_);
    adopted_.clear();
    for (size_t i = hits; i < n; ++i) {
        slots_[i] = store_.lookahead().take({layer_, static_cast<uint16_t>(experts_[i])});
        if (slots_[i] != nullptr) {
            adopted_.push_back(slots_[i]);
            std::rotate(experts_.begin() + hits, experts_.begin() + i, experts_.begin() + i + 1);
            std::rotate(slots_.begin() + hits, slots_.begin() + i, slots_.begin() + i + 1);
            ++hits;
        }
    }
    for (size_t i = hits; i < n; ++i) {
        slots_[i] = cache.admit({layer_, static_cast<uint16_t>(experts_[i])}, phase);
        missed_[i] = true;
    }

    slices_.resize(n * n_banks_);
    for (size_t i = 0; i < n; ++i) {
        for (uint16_t bank = 0; bank < n_banks_; ++bank) {
            cache::Slice *slice =
                slots_[i] != nullptr ? &slots_[i]->slices[bank] : &staged_slices_[i * n_banks_ + bank];
            if (slots_[i] == nullptr) {
                slice->room = nullptr;
                slice->state.store(cache::SliceState::kEmpty, std::memory_order_relaxed);
            }
            slices_[i * n_banks_ + bank] = slice;
        }
    }

    first_row_.assign(n + 1, 0);
    std::vector<uint32_t> &index_of = count_;  // the counts have served; reuse as expert id -> index
    for (size_t i = 0; i < n; ++i) {
        first_row_[i + 1] = first_row_[i] + index_of[experts_[i]];
        index_of[experts_[i]] = static_cast<uint32_t>(i);
    }
    rows_.resize(routing_.size());
    for (size_t r = routing_.size(); r-- > 0;) {
        // Filled from the back, first_row_[i + 1] serves as the cursor of expert i and ends at its first row.
        rows_[--first_row_[index_of[routing_[r]] + 1]] = {static_cast<int32_t>(r % top_k),
                                                          static_cast<int32_t>(r / top_k)};
    }
    first_row_.erase(first_row_.begin());
    first_row_.push_back(static_cast<uint32_t>(routing_.size()));
}

// Appends the bank's reads, in file order. Called once per bank for its slots and once for its staged slices, in either order
// of the two when the bank belongs to a later split of the visit.
void LayerVisit::queue_bank(uint16_t bank, bool with_staged) {
    const bool with_slots = (queued_banks_ >> bank & 1) == 0;
    queued_banks_ |= uint64_t{1} << bank;
    for (uint32_t i = 0; i < experts_.size(); ++i) {
        const bool staged = slots_[i] == nullptr;
        if (missed_[i] && (staged ? with_staged : with_slots)) {
            to_issue_.push_back(i * n_banks_ + bank);
            store_.count_staged(staged ? 1 : 0);
        }
    }
}

// Issues reads in order until one finds no staging room. issue_mutex_ is held.
void LayerVisit::pump() {
    jobs_.clear();
    for (; next_issue_ < to_issue_.size(); ++next_issue_) {
        const uint32_t at = to_issue_[next_issue_];
        cache::Slice &slice = *slices_[at];
        if (slice.room == nullptr) {
            slice.room = store_.staging().take();
            if (slice.room == nullptr) {
                break;
            }
        }
        const uint32_t index = at / n_banks_;
        const auto bank = static_cast<uint16_t>(at % n_banks_);
        slice.state.store(cache::SliceState::kReading, std::memory_order_relaxed);
        SliceRead &read = reads_[at];
        read.visit = this;
        read.slice = &slice;
        read.index = index;
        read.bank = bank;
        read.job = slice_job(store_.model(), {layer_, static_cast<uint16_t>(experts_[index])}, bank, slice.room);
        read.job.done = on_read;
        read.job.user = &read;
        jobs_.push_back(&read.job);
    }
    if (!jobs_.empty()) {
        in_flight_.fetch_add(static_cast<uint32_t>(jobs_.size()), std::memory_order_relaxed);
        store_.pool().submit(jobs_, io::Priority::kDemand);
    }
}

void LayerVisit::on_read(io::ReadJob &job, const io::ReadStatus &status) {
    auto &read = *static_cast<SliceRead *>(job.user);
    LayerVisit &visit = *read.visit;
    cache::Slice &slice = *read.slice;
    if (status.ok()) {
        publish_slice(slice, job);
    } else {
        const auto expert = static_cast<uint16_t>(visit.experts_[read.index]);
        visit.store_.report_error(
            describe_slice_error(visit.store_.model(), {visit.layer_, expert}, read.bank, status.error));
        slice.state.store(cache::SliceState::kFailed, std::memory_order_release);
    }
    visit.in_flight_.fetch_sub(1, std::memory_order_release);
    visit.arrivals_.fetch_add(1, std::memory_order_release);
    visit.arrivals_.notify_all();
}

void LayerVisit::release(uint32_t index, uint16_t bank) {
    if (slots_[index] != nullptr) {
        return;
    }
    const std::scoped_lock lock(issue_mutex_);
    cache::Slice &slice = *slices_[index * n_banks_ + bank];
    store_.staging().give_back(slice.room);
    slice.room = nullptr;
    pump();
}

void LayerVisit::await_reads() {
    for (;;) {
        const uint32_t seen = arrivals_.load(std::memory_order_acquire);
        const bool adopted_are_here = std::all_of(adopted_.begin(), adopted_.end(), is_read);
        if (in_flight_.load(std::memory_order_acquire) == 0 && adopted_are_here) {
            return;
        }
        arrivals_.wait(seen, std::memory_order_acquire);
    }
}

void LayerVisit::close() {
    if (!open_) {
        return;
    }
    await_reads();
    open_ = false;
    const std::scoped_lock lock(issue_mutex_);
    for (uint32_t at : to_issue_) {
        cache::Slice &slice = *slices_[at];
        if (slots_[at / n_banks_] == nullptr && slice.room != nullptr) {
            store_.staging().give_back(slice.room);
            slice.room = nullptr;
        }
    }
    to_issue_.clear();
    next_issue_ = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i] == nullptr) {
            continue;
        }
        const bool whole =
            std::all_of(slots_[i]->slices.begin(), slots_[i]->slices.end(), [](const cache::Slice &slice) {
                return slice.state.load(std::memory_order_acquire) == cache::SliceState::kReady;
            });
        if (whole) {
            store_.mutable_cache()->unpin(slots_[i]);
        } else {
            store_.mutable_cache()->discard(slots_[i]);
        }
    }
}

}  // namespace bmoe::backend
