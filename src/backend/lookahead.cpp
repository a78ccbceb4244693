#include "backend/lookahead.h"

#include <algorithm>

#include "backend/expert_store.h"
#include "backend/layer_visit.h"
#include "backend/slice_read.h"
#include "base/clock.h"
#include "base/error.h"

namespace bmoe::backend {

LookaheadCounters LookaheadCounters::since(const LookaheadCounters &earlier) const {
    return {guesses - earlier.guesses,        started - earlier.started,
            adopted - earlier.adopted,        ready - earlier.ready,
            misses - earlier.misses,          wasted_bytes - earlier.wasted_bytes,
            early_bytes - earlier.early_bytes};
}

Lookahead::Lookahead(ExpertStore &store) : store_(store), routers_(store.geometry().layers.size()) {
    size_t most_banks = 0;
    for (const auto &layer : store.geometry().layers) {
        most_banks = std::max(most_banks, layer.slice_bytes.size());
    }
    for (Guess &guess : guesses_) {
        guess.owner = this;
        guess.reads.resize(most_banks);
    }
    jobs_.reserve(most_banks * kMost);
}

Lookahead::~Lookahead() { clear(); }

void Lookahead::set_depth(int experts) {
    automatic_ = experts == kAuto;
    depth_ = automatic_ ? kAutoDepth : std::min(experts, kMost / 2);
    on_ = true;
}

Lookahead::Guess *Lookahead::free_guess() {
    const auto it =
        std::find_if(guesses_.begin(), guesses_.end(), [](const Guess &guess) { return guess.state == State::kFree; });
    return it == guesses_.end() ? nullptr : &*it;
}

bool Lookahead::is_open(cache::ExpertId id) const {
    return std::any_of(guesses_.begin(), guesses_.end(),
                       [&](const Guess &guess) { return guess.state == State::kOpen && guess.id == id; });
}

bool Lookahead::has_arrived(cache::ExpertId id) const {
    const auto it = std::find_if(guesses_.begin(), guesses_.end(),
                                 [&](const Guess &guess) { return guess.state == State::kOpen && guess.id == id; });
    if (it == guesses_.end()) {
        return false;
    }
    const auto any = [&](cache::SliceState state) {
        return std::any_of(it->slot->slices.begin(), it->slot->slices.end(), [&](const cache::Slice &slice) {
            return slice.state.load(std::memory_order_acquire) == state;
        });
    };
    return any(cache::SliceState::kReady) && !any(cache::SliceState::kFailed);
}

void Lookahead::look(uint16_t layer, const float *input, int64_t n) {
    const auto next = static_cast<uint16_t>(layer + 1);
    if (!active() || !routers_.knows(next) ||
        !routers_.top(next, {input, n, layer}, store_.geometry().layers[next].top_k, likely_)) {
        return;
    }
    reap();
    jobs_.clear();
    guessed_ = true;
    guessed_layer_ = next;
    int opened = 0;
    for (const int32_t expert : likely_) {
        const cache::ExpertId id{next, static_cast<uint16_t>(expert)};
        if (opened == depth_) {
            break;
        }
        if (store_.cache()->resident(id) || is_open(id)) {
            continue;
        }
        Guess *guess = free_guess();
        if (guess == nullptr || !open(*guess, id)) {
            break;
        }
        ++opened;
    }
    // Expert by expert, the likeliest first: a whole expert that is there counts, half of two does not.
    if (!jobs_.empty()) {
        store_.pool().submit(jobs_, io::Priority::kGuess);
    }
}

// Prepares the reads of one expert in jobs_. False if the cache has no slot for it.
bool Lookahead::open(Guess &guess, cache::ExpertId id) {
    cache::Slot *slot = store_.mutable_cache()->reserve_guess(id);
    if (slot == nullptr) {
        return false;
    }
    guess.id = id;
    guess.slot = slot;
    guess.state = State::kOpen;
    guess.failed = false;
    guess.adopted = false;
    const auto n_banks = static_cast<uint16_t>(slot->slices.size());
    guess.in_flight.store(n_banks, std::memory_order_relaxed);
    for (uint16_t bank = 0; bank < n_banks; ++bank) {
        SliceRead &read = guess.reads[bank];
        slot->slices[bank].state.store(cache::SliceState::kReading, std::memory_order_relaxed);
        read.guess = &guess;
        read.bank = bank;
        read.job = slice_job(store_.model(), id, bank, slot->slices[bank].room);
        read.job.done = on_read;
        read.job.user = &read;
        jobs_.push_back(&read.job);
    }
    ++counters_.guesses;
    return true;
}

void Lookahead::on_read(io::ReadJob &job, const io::ReadStatus &status) {
    auto &read = *static_cast<SliceRead *>(job.user);
    Guess &guess = *read.guess;
    ExpertStore &store = guess.owner->store_;
    cache::Slice &slice = guess.slot->slices[read.bank];
    if (status.ok()) {
        publish_slice(slice, job);
    } else {
        const std::scoped_lock lock(guess.mutex);
        guess.failed = true;
        if (guess.adopted) {
            store.report_error(describe_slice_error(store.model(), guess.id, read.bank, status.error));
        }
        slice.state.store(cache::SliceState::kFailed, std::memory_order_release);
    }
    // The guess may be reused as soon as nothing of it is in flight.
    guess.in_flight.fetch_sub(1, std::memory_order_release);
    store.visit().wake();
}

void Lookahead::settle(uint16_t layer, std::span<const int32_t> selected) {
    if (automatic_ && layer == 0) {
        on_ = control_.next_token(counters_.started, counters_.adopted, store_.pool().counters().active_ns, now_ns());
    }
    settled_guess_ = guessed_ && guessed_layer_ == layer;
    guessed_ = false;
    for (Guess &guess : guesses_) {
        if (guess.state == State::kOpen && (guess.id.layer != layer || std::find(selected.begin(), selected.end(),
                                                                                 guess.id.expert) == selected.end())) {
            drop(guess);
        }
    }
    reap();
}

// Cancels what no lane has started; the rest is read for nothing.
void Lookahead::drop(Guess &guess) {
    const size_t n_banks = guess.slot->slices.size();
    bool started = false;
    for (size_t bank = 0; bank < n_banks; ++bank) {
        if (store_.pool().cancel(guess.reads[bank].job)) {
            guess.in_flight.fetch_sub(1, std::memory_order_relaxed);
        } else {
            counters_.wasted_bytes += guess.reads[bank].job.length;
            started = true;
        }
    }
    counters_.started += started ? 1 : 0;
    guess.state = State::kDropped;
}

// Frees guesses that are over.
void Lookahead::reap() {
    for (Guess &guess : guesses_) {
        if ((guess.state == State::kAdopted || guess.state == State::kDropped) &&
            guess.in_flight.load(std::memory_order_acquire) == 0) {
            if (guess.state == State::kDropped) {
                store_.mutable_cache()->give_back(guess.slot);
            }
            guess.state = State::kFree;
        }
    }
}

cache::Slot *Lookahead::take(cache::ExpertId id) {
    counters_.misses += settled_guess_ ? 1 : 0;
    const auto it = std::find_if(guesses_.begin(), guesses_.end(),
                                 [&](const Guess &guess) { return guess.state == State::kOpen && guess.id == id; });
    if (it == guesses_.end()) {
        return nullptr;
    }
    Guess &guess = *it;
    const size_t n_banks = guess.slot->slices.size();
    size_t waiting = 0;
    size_t ready = 0;
    uint64_t early_bytes = 0;
    for (size_t bank = 0; bank < n_banks; ++bank) {
        waiting += store_.pool().promote(guess.reads[bank].job) ? 1 : 0;
        if (guess.slot->slices[bank].state.load(std::memory_order_acquire) == cache::SliceState::kReady) {
            ++ready;
            early_bytes += guess.reads[bank].job.length;
        }
    }
    {
        const std::scoped_lock lock(guess.mutex);
        guess.adopted = !guess.failed;
    }
    if (!guess.adopted) {
        // Read again as any other: whatever is wrong with it will be reported then.
        drop(guess);
        return nullptr;
    }
    counters_.started += waiting < n_banks ? 1 : 0;
    counters_.adopted += waiting < n_banks ? 1 : 0;
    counters_.ready += ready == n_banks ? 1 : 0;
    counters_.early_bytes += early_bytes;
    guess.state = State::kAdopted;
    store_.mutable_cache()->adopt(guess.slot);
    return guess.slot;
}

void Lookahead::clear() {
    guessed_ = false;
    for (Guess &guess : guesses_) {
        if (guess.state == State::kOpen) {
            drop(guess);
        }
    }
    for (Guess &guess : guesses_) {
        while (guess.state != State::kFree) {
            const uint32_t seen = store_.visit().arrivals().load(std::memory_order_acquire);
            if (guess.in_flight.load(std::memory_order_acquire) != 0) {
                store_.visit().arrivals().wait(seen, std::memory_order_acquire);
            }
            reap();
        }
    }
}

}  // namespace bmoe::backend
