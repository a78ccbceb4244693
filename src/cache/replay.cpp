#include <algorithm>
#include <vector>

#include "base/error.h"
#include "cache/expert_index.h"
#include "cache/route_trace.h"

namespace bmoe::cache {

namespace {

// A cache of ids that share one budget in bytes, driven as the engine drives its own.
class ReplayCache {
  public:
    ReplayCache(const RouteTrace &trace, PolicyKind kind, uint64_t budget)
        : bytes_(trace.expert_bytes),
          index_(trace.geometry()),
          one_class_(bytes_.size(), 0),
          policy_(make_policy(kind, trace.geometry(), one_class_)),
          resident_(index_.count()),
          budget_(budget) {}

    void run(const RouteRow &row, ReplayResult &result) {
        const auto layer = static_cast<uint16_t>(row.layer);
        const auto id = [layer](int32_t expert) { return ExpertId{layer, static_cast<uint16_t>(expert)}; };
        policy_->visit({layer, 1, static_cast<uint32_t>(row.experts.size()), row.experts, row.weights, row.phase});
        pinned_.clear();
        missing_.clear();
        for (int32_t expert : row.experts) {
            const bool hit = resident_[index_(id(expert))];
            if (row.phase == Phase::kDecode) (hit ? result.hit_bytes : result.missed_bytes) += bytes_[layer];
            (hit ? pinned_ : missing_).push_back(id(expert));
        }
        for (ExpertId hit : pinned_) policy_->pin(hit);
        for (ExpertId miss : missing_) {
            if (!make_room(bytes_[layer])) continue;
            used_ += bytes_[layer];
            resident_[index_(miss)] = true;
            policy_->pin(miss);
            policy_->inserted(miss);
            pinned_.push_back(miss);
        }
        for (ExpertId expert : pinned_) policy_->unpin(expert);
    }

  private:
    bool make_room(uint64_t bytes) {
        while (used_ + bytes > budget_) {
            const auto victim = policy_->victim(0);
            if (!victim) return false;
            policy_->evicted(*victim);
            resident_[index_(*victim)] = false;
            used_ -= bytes_[victim->layer];
        }
        return true;
    }

    std::vector<uint64_t> bytes_;
    ExpertIndex index_;
    std::vector<uint32_t> one_class_;
    std::unique_ptr<Policy> policy_;
    std::vector<bool> resident_;
    std::vector<ExpertId> pinned_, missing_;
    uint64_t budget_;
    uint64_t used_ = 0;
};

}  // namespace

double ReplayResult::hit_rate() const {
    const uint64_t all = hit_bytes + missed_bytes;
    return all == 0 ? 0.0 : static_cast<double>(hit_bytes) / static_cast<double>(all);
}

ReplayResult replay(const RouteTrace &trace, PolicyKind kind, uint64_t budget) {
    ReplayCache cache(trace, kind, budget);
    ReplayResult result;
    for (const RouteRow &row : trace.rows) cache.run(row, result);
    return result;
}

}  // namespace bmoe::cache
