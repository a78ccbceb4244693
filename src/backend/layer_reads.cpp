#include "backend/layer_reads.h"

#include <algorithm>

#include "backend/expert_store.h"
#include "backend/layer_visit.h"
#include "backend/slice_read.h"

namespace bmoe::backend {

LayerReads::LayerReads(ExpertStore &store) : store_(store) {
    const size_t most_slices = store.geometry().most_slices();
    slots_.resize(store.geometry().most_experts());
    staged_ = std::make_unique<cache::Slice[]>(most_slices);
    reads_.resize(most_slices);
    queue_.reserve(2 * most_slices);  // a slice whose read failed ahead of demand is queued twice
    jobs_.reserve(most_slices);
}

void LayerReads::begin(uint16_t layer) {
    for (const Item item : queue_) {
        staged_[at(item)].state.store(cache::SliceState::kEmpty, std::memory_order_relaxed);
    }
    queue_.clear();
    issued_ = 0;
    layer_ = layer;
    n_banks_ = static_cast<uint16_t>(store_.geometry().layers[layer].slice_bytes.size());
    std::fill(slots_.begin(), slots_.end(), nullptr);
}

cache::Slice &LayerReads::slice(uint16_t expert, uint16_t bank) {
    cache::Slot *slot = slots_[expert];
    return slot != nullptr ? slot->slices[bank] : staged_[at({expert, bank})];
}

void LayerReads::issue(io::Priority priority) {
    jobs_.clear();
    for (; issued_ < queue_.size(); ++issued_) {
        const Item item = queue_[issued_];
        cache::Slice &to = slice(item.expert, item.bank);
        if (to.room == nullptr) {
            to.room = store_.staging().take();
            if (to.room == nullptr) {
                break;
            }
        }
        to.state.store(cache::SliceState::kReading, std::memory_order_relaxed);
        SliceRead &read = reads_[at(item)];
        read.owner = this;
        read.slice = &to;
        read.item = item;
        read.demanded = priority == io::Priority::kDemand;
        if (read.demanded && slots_[item.expert] == nullptr) {
            store_.count_staged();
        }
        read.job = slice_job(store_.model(), {layer_, item.expert}, item.bank, to.room);
        read.job.done = on_read;
        read.job.user = &read;
        jobs_.push_back(&read.job);
    }
    if (!jobs_.empty()) {
        in_flight_.fetch_add(static_cast<uint32_t>(jobs_.size()), std::memory_order_relaxed);
        store_.pool().submit(jobs_, priority);
    }
}

void LayerReads::on_read(io::ReadJob &job, const io::ReadStatus &status) {
    const auto &read = *static_cast<SliceRead *>(job.user);
    LayerReads &owner = *read.owner;
    ExpertStore &store = owner.store_;
    if (status.ok()) {
        publish_slice(*read.slice, job);
    } else {
        const std::scoped_lock lock(owner.failure_mutex_);
        if (read.demanded) {
            const cache::ExpertId id{owner.layer_, read.item.expert};
            store.report_error(describe_slice_error(store.model(), id, read.item.bank, status.error));
        }
        read.slice->state.store(cache::SliceState::kFailed, std::memory_order_release);
    }
    // From here on the read may be used again.
    owner.in_flight_.fetch_sub(1, std::memory_order_release);
    store.visit().wake();
}

void LayerReads::give_back_room(uint16_t expert, uint16_t bank) {
    cache::Slice &from = staged_[at({expert, bank})];
    store_.staging().give_back(from.room);
    from.room = nullptr;
    from.state.store(cache::SliceState::kEmpty, std::memory_order_relaxed);
}

size_t LayerReads::demand(std::span<const uint32_t> rows_of_expert) {
    const std::scoped_lock lock(failure_mutex_);
    size_t slices = 0;
    for (size_t i = 0; i < issued_; ++i) {
        const Item item = queue_[i];
        if (rows_of_expert[item.expert] == 0) {
            continue;
        }
        SliceRead &read = reads_[at(item)];
        read.demanded = true;
        cache::Slice &to = slice(item.expert, item.bank);
        const cache::SliceState state = to.state.load(std::memory_order_acquire);
        if (state == cache::SliceState::kFailed) {
            to.state.store(cache::SliceState::kEmpty, std::memory_order_relaxed);
            if (slots_[item.expert] == nullptr) {
                give_back_room(item.expert, item.bank);  // it waits its turn like others
            }
        } else if (state != cache::SliceState::kEmpty) {
            ++slices;
            if (slots_[item.expert] == nullptr) {
                store_.count_staged();
            }
            store_.pool().promote(read.job);
        }
    }
    return slices;
}

bool LayerReads::is_begun(uint16_t expert) const {
    return std::any_of(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(issued_),
                       [&](const Item &item) { return item.expert == expert; });
}

template <typename Predicate>
void LayerReads::cancel_if(Predicate predicate) {
    for (size_t i = 0; i < issued_; ++i) {
        const Item item = queue_[i];
        if (predicate(item) && store_.pool().cancel(reads_[at(item)].job)) {
            slice(item.expert, item.bank).state.store(cache::SliceState::kEmpty, std::memory_order_relaxed);
            in_flight_.fetch_sub(1, std::memory_order_relaxed);
        }
    }
}

void LayerReads::drop_unrouted(std::span<const uint32_t> rows_of_expert) {
    cancel_if([&](const Item &item) { return rows_of_expert[item.expert] == 0; });
    for (size_t i = 0; i < issued_; ++i) {
        const Item item = queue_[i];
        cache::Slice &staged = staged_[at(item)];
        if (rows_of_expert[item.expert] == 0 && staged.room != nullptr &&
            staged.state.load(std::memory_order_acquire) != cache::SliceState::kReading) {
            give_back_room(item.expert, item.bank);
        }
    }
}

void LayerReads::cancel_staged() {
    cancel_if([&](const Item &item) { return slots_[item.expert] == nullptr; });
}

void LayerReads::cancel_all() {
    cancel_if([](const Item &) { return true; });
}

void LayerReads::await() {
    for (;;) {
        const uint32_t seen = store_.visit().arrivals().load(std::memory_order_acquire);
        if (!is_under_way()) {
            return;
        }
        store_.visit().arrivals().wait(seen, std::memory_order_acquire);
    }
}

void LayerReads::give_back_rooms() {
    for (size_t i = 0; i < issued_; ++i) {
        const Item item = queue_[i];
        if (staged_[at(item)].room != nullptr) {
            give_back_room(item.expert, item.bank);
        }
    }
}

}  // namespace bmoe::backend
