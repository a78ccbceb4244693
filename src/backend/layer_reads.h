// The reads of one layer's experts that are not resident: where each slice goes, and which may be issued.
//
// A slice goes to its expert's cache slot, if it has one, else to a staging room. Rooms are few: reads are issued in the order
// they were queued until one finds no room, and go on when one is given back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cache/slot_pool.h"
#include "io/read_pool.h"

namespace bmoe::backend {

class ExpertStore;

// The thread that decodes calls everything; where it does so while others compute, its caller locks.
class LayerReads {
  public:
    explicit LayerReads(ExpertStore &store);
    LayerReads(const LayerReads &) = delete;
    LayerReads &operator=(const LayerReads &) = delete;

    // Nothing is placed and nothing queued any more. No read of the last time is under way.
    void begin(uint16_t layer);
    uint16_t layer() const { return layer_; }

    void set_slot(uint16_t expert, cache::Slot *slot) { slots_[expert] = slot; }
    cache::Slot *slot(uint16_t expert) const { return slots_[expert]; }  // nullptr: its slices are staged
    cache::Slice &slice(uint16_t expert, uint16_t bank);

    // A slice that nothing was queued for yet.
    void queue(uint16_t expert, uint16_t bank) { queue_.push_back({expert, bank}); }
    bool has_queued() const { return !queue_.empty(); }
    bool has_issued_all() const { return issued_ == queue_.size(); }

    // The error of a demanded read is the store's error; others only leave their slice kFailed.
    void issue(io::Priority priority);

    // The slice has been multiplied for the last time.
    void give_back_room(uint16_t expert, uint16_t bank);

    // Forgets what is queued and not issued.
    void drop_unissued() { queue_.resize(issued_); }
    // What is issued of experts with rows is demanded from now on; a slice whose read failed can be queued again. Returns the
    // number of slices.
    size_t demand(std::span<const uint32_t> rows_of_expert);
    // True if a read of the expert was issued.
    bool is_begun(uint16_t expert) const;
    // Takes reads back that have not started: of experts without rows, and of all that are staged. What was read for the former
    // gives its room back; reads under way keep theirs, as many at most as the pool has lanes, so that rooms are left.
    void drop_unrouted(std::span<const uint32_t> rows_of_expert);
    void cancel_staged();
    void cancel_all();

    bool is_under_way() const { return in_flight_.load(std::memory_order_acquire) != 0; }
    void await();            // until nothing issued is under way
    void give_back_rooms();  // after await()

  private:
    struct Item {
        uint16_t expert = 0;
        uint16_t bank = 0;
    };
    struct SliceRead {
        io::ReadJob job;
        LayerReads *owner = nullptr;
        cache::Slice *slice = nullptr;
        Item item;
        bool demanded = false;
    };

    template <typename Predicate>
    void cancel_if(Predicate predicate);
    size_t at(Item item) const { return size_t{item.expert} * n_banks_ + item.bank; }
    static void on_read(io::ReadJob &job, const io::ReadStatus &status);

    ExpertStore &store_;
    uint16_t layer_ = 0;
    uint16_t n_banks_ = 0;
    std::vector<cache::Slot *> slots_;        // by expert
    std::unique_ptr<cache::Slice[]> staged_;  // expert x bank
    std::vector<SliceRead> reads_;            // expert x bank
    std::vector<Item> queue_;
    size_t issued_ = 0;  // of the queue
    std::vector<io::ReadJob *> jobs_;
    std::atomic<uint32_t> in_flight_{0};
    std::mutex failure_mutex_;  // guards SliceRead::demanded against a read that fails meanwhile
};

}  // namespace bmoe::backend
