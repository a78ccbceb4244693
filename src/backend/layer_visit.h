// One visit of an expert layer: a routing decision, the memory its experts are in or are being read to, and the reads.
//
// A visit begins when the first graph split that multiplies by one of the layer's banks runs, and ends when another visit
// begins: a layer may reach the backend in several splits. Its experts stay pinned until then.
//
// When all reads of a prompt's visit are issued, those of the next layer begin: experts that its router would select for this
// layer's input are read into free slots, or pass through staging rooms.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/layer_reads.h"
#include "cache/lossy_choice.h"
#include "cache/slot_pool.h"

struct ggml_tensor;

namespace bmoe::backend {

struct BankRef;
class ExpertStore;
class RouteObserver;

// A row of an expert's product: which of the token's selected experts it is (rank), and the token.
struct RoutedRow {
    int32_t rank = 0;
    int32_t token = 0;
};

class LayerVisit {
  public:
    explicit LayerVisit(ExpertStore &store);
    ~LayerVisit();
    LayerVisit(const LayerVisit &) = delete;
    LayerVisit &operator=(const LayerVisit &) = delete;

    // Prepares for a split that multiplies by `banks` (all of one layer, in the order they are needed), selected by `ids`
    // (I32, top_k x tokens). `weights` are the router weights, and `input` the experts' input (F32, [n, 1 or top_k, tokens]),
    // if they are known before the split is computed, else nullptr. Continues the visit in progress if it is the same one,
    // else ends that and begins another: the policy learns the routing, hits are pinned, missing experts get slots or staging,
    // and reads are queued. With lossy routing `ids` and `weights` may be changed before anything else. False after an error,
    // which the store then holds.
    bool enter(std::span<BankRef *const> banks, const ggml_tensor *ids, const ggml_tensor *weights,
               const ggml_tensor *input);

    // Ends the visit: waits for its reads, unpins its experts, forgets those that could not be read. Nothing is read ahead
    // any more.
    void close();

    // Nothing had to be read for this visit.
    bool all_resident() const { return adopted_.empty() && !reads_->has_queued(); }

    // Waits until the reads queued so far are done, and those that were adopted.
    void await_reads();

    // --- while a visit is open; thread-safe ---
    uint16_t layer() const { return layer_; }
    uint32_t experts() const { return static_cast<uint32_t>(experts_.size()); }  // distinct experts routed to
    int32_t expert_id(uint32_t index) const { return experts_[index]; }          // resident ones first, then ascending
    std::span<const RoutedRow> rows(uint32_t index) const {
        return {rows_.data() + first_row_[index], first_row_[index + 1] - first_row_[index]};
    }
    // Rows of no expert (see LossyRouting): they are to be zero.
    std::span<const RoutedRow> dropped_rows() const { return dropped_rows_; }
    cache::Slice &slice(uint32_t index, uint16_t bank) { return *slices_[index * n_banks_ + bank]; }

    // The slice has been multiplied for the last time: its staging room may serve another.
    void release(uint32_t index, uint16_t bank);

    // Counts slices that became ready or failed; a compute thread with nothing to do waits for it to change.
    const std::atomic<uint32_t> &arrivals() const { return arrivals_; }

    // Wakes threads that wait for an arrival.
    void wake() {
        arrivals_.fetch_add(1, std::memory_order_release);
        arrivals_.notify_all();
    }

  private:
    bool same_visit(std::span<BankRef *const> banks, const ggml_tensor *ids) const;
    bool read_routing(const ggml_tensor *ids, const ggml_tensor *weights);
    void group_rows();
    cache::Residency residency(int32_t expert) const;
    void take_over_reads(std::span<BankRef *const> banks);
    void place_experts(uint32_t top_k, uint32_t n_tokens);
    size_t place_first(size_t place, size_t index);
    void show_routing(RouteObserver &observer, const ggml_tensor *ids, const ggml_tensor *input) const;
    void queue_bank(uint16_t bank, bool with_staged);
    bool has_stalled();
    void read_ahead(std::span<BankRef *const> banks, const ggml_tensor *input);
    void issue();
    void end();
    void drop_ahead();

    ExpertStore &store_;
    bool open_ = false;
    uint16_t layer_ = 0;
    uint16_t n_banks_ = 0;
    const void *ids_data_ = nullptr;
    uint64_t used_banks_ = 0;    // bit per bank that a split of this visit has multiplied by
    uint64_t queued_banks_ = 0;  // bit per bank whose slot reads are queued

    std::vector<int32_t> experts_;
    size_t hits_ = 0;  // of these, the first: resident when the visit began
    std::vector<uint32_t> first_row_;
    std::vector<RoutedRow> rows_;
    std::vector<RoutedRow> dropped_rows_;
    std::vector<cache::Slot *> slots_;    // per expert; nullptr: staged
    std::vector<cache::Slot *> adopted_;  // of these, whose reads are the lookahead's
    std::vector<cache::Slice *> slices_;  // expert x bank
    std::vector<bool> missed_;            // per expert: its slices are to be read
    std::vector<int32_t> routing_;        // the router's
    std::vector<float> weights_;          // the router's
    std::span<const int32_t> used_;       // the routing that is computed; cache::kDropped: nothing is
    std::vector<uint32_t> count_;         // rows per expert id
    std::vector<cache::Slot *> surplus_;  // read ahead for experts that the routing then did not select

    std::mutex issue_mutex_;  // guards issuing, and the store's staging
    std::unique_ptr<LayerReads> reads_;
    // Of a prompt's next layer, in rooms and free slots that this one does not need.
    std::unique_ptr<LayerReads> ahead_;
    bool reads_ahead_ = false;
    uint64_t last_ns_ = 0;                 // when has_stalled() was asked last
    uint64_t last_stall_ns_ = 0;           // and the store's stall then
    std::vector<uint32_t> votes_;          // by expert of the next layer: rows that would select it
    std::vector<uint16_t> ahead_experts_;  // to be read
    std::vector<uint16_t> ahead_banks_;    // in the order they are needed

    std::atomic<uint32_t> arrivals_{0};
};

}  // namespace bmoe::backend
