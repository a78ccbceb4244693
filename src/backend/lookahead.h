// Reads ahead for the next expert layer: what its router will probably select and the cache does not hold, at low priority,
// while the disk would idle.
//
// Nothing depends on a guess being right. Guesses are read into slots that the cache keeps free for it, so no resident expert
// gives way to one. When the layer's true selection is known, reads of selected experts that have started are adopted; all
// others are taken back or, in flight, left to end unused.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/lookahead_control.h"
#include "backend/router_guess.h"
#include "cache/expert_id.h"
#include "cache/slot_pool.h"
#include "io/read_pool.h"

namespace bmoe::backend {

class ExpertStore;

struct LookaheadCounters {
    uint64_t guesses = 0;       // experts whose reading was asked for
    uint64_t started = 0;       // of these: begun before the selection was known
    uint64_t adopted = 0;       // of these: selected
    uint64_t ready = 0;         // of these: completely read when they were needed
    uint64_t misses = 0;        // experts that missed the cache in layers that had been guessed
    uint64_t wasted_bytes = 0;  // read for nothing
    uint64_t early_bytes = 0;   // of selected experts: there when the selection was known

    LookaheadCounters since(const LookaheadCounters &earlier) const;
};

class Lookahead {
  public:
    static constexpr int kMost = 16;  // guesses at a time
    static constexpr int kAuto = -1;  // a depth: kAutoDepth where it pays, else none
    static constexpr int kAutoDepth = 3;

    explicit Lookahead(ExpertStore &store);
    ~Lookahead();
    Lookahead(const Lookahead &) = delete;
    Lookahead &operator=(const Lookahead &) = delete;

    // Experts read ahead per layer at most; 0: none; kAuto.
    void set_depth(int experts);
    int depth() const { return depth_; }  // at most
    bool active() const { return depth_ > 0 && on_; }

    RouterGuess &routers() { return routers_; }

    // The rest: one thread at a time, with what it did visible to the next.

    // Guesses the layer after `layer` from its expert input, a row of F32, and has the misses read.
    void look(uint16_t layer, const float *input, int64_t n);

    // A guess whose first slice is there and that can be taken. What is only under way may still be queued behind others.
    bool has_arrived(cache::ExpertId id) const;

    // The selection of `layer` is known: everything else is dropped. `misses` of its experts are not resident.
    void settle(uint16_t layer, std::span<const int32_t> selected);

    // The slot of an expert that is being read or has been, now resident and pinned, or nullptr. Counts a miss.
    cache::Slot *take(cache::ExpertId id);

    // Drops all guesses and waits for their reads.
    void clear();

    const LookaheadCounters &counters() const { return counters_; }

  private:
    enum class State : uint8_t { kFree, kOpen, kAdopted, kDropped };
    struct Guess;
    struct SliceRead {
        io::ReadJob job;
        Guess *guess = nullptr;
        uint16_t bank = 0;
    };
    struct Guess {
        Lookahead *owner = nullptr;
        State state = State::kFree;
        cache::ExpertId id;
        cache::Slot *slot = nullptr;
        std::vector<SliceRead> reads;
        std::atomic<uint32_t> in_flight{0};  // not cancelled, not done
        std::mutex mutex;                    // guards the two below
        bool failed = false;
        bool adopted = false;
    };

    Guess *free_guess();
    bool is_open(cache::ExpertId id) const;
    bool open(Guess &guess, cache::ExpertId id);
    void drop(Guess &guess);
    void reap();
    static void on_read(io::ReadJob &job, const io::ReadStatus &status);

    ExpertStore &store_;
    RouterGuess routers_;
    int depth_ = 0;
    bool automatic_ = false;
    bool on_ = true;
    LookaheadControl control_;
    std::array<Guess, kMost> guesses_;
    bool guessed_ = false;  // there is a guess about guessed_layer_
    uint16_t guessed_layer_ = 0;
    bool settled_guess_ = false;  // the layer being visited had been guessed
    std::vector<int32_t> likely_;
    std::vector<io::ReadJob *> jobs_;
    LookaheadCounters counters_;
};

}  // namespace bmoe::backend
