#include "cache/ubatch_choice.h"

#include <algorithm>

namespace bmoe::cache {

namespace {

constexpr uint64_t kShare = 100;  // of the slots that doubling may take

}  // namespace

UbatchChoice choose_ubatch(const std::function<MemoryPlan(uint32_t)> &plan_of, uint64_t limit, uint32_t n_ctx,
                           bool fixed_slots) {
    const auto fits = [&](const MemoryPlan &plan) { return plan.total() <= limit && (fixed_slots || plan.slots > 0); };
    UbatchChoice choice{kUsualUbatch, plan_of(kUsualUbatch)};
    const UbatchChoice usual = choice;
    while (!fits(choice.plan) && choice.n_ubatch > kSmallestUbatch) {
        choice.n_ubatch /= 2;
        choice.plan = plan_of(choice.n_ubatch);
    }
    if (!fits(choice.plan) && usual.plan.total() <= limit) {
        return usual;  // there is no cache to be had by computing fewer
    }
    const uint32_t most = n_ctx == 0 ? kLargestUbatch : std::min(kLargestUbatch, n_ctx);
    while (choice.n_ubatch >= kUsualUbatch && 2 * choice.n_ubatch <= most && fits(choice.plan)) {
        const MemoryPlan plan = plan_of(2 * choice.n_ubatch);
        const uint64_t taken = fixed_slots ? plan.total() - std::min(plan.total(), choice.plan.total())
                                           : choice.plan.slots - std::min(choice.plan.slots, plan.slots);
        if (!fits(plan) || taken > choice.plan.slots / kShare) {
            break;
        }
        choice = {2 * choice.n_ubatch, plan};
    }
    return choice;
}

}  // namespace bmoe::cache
