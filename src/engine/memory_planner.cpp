#include "engine/memory_planner.h"

#include <algorithm>

#include "backend/expert_store.h"
#include "base/error.h"
#include "base/mib.h"
#include "cache/slot_pool.h"
#include "gguf/model_file.h"

namespace bmoe::engine {

namespace {

class Planner {
  public:
    Planner(const Options &options, llama_model *model, const ContextSetting &setting,
            const cache::MemoryLimits &limits)
        : options_(options),
          model_(model),
          setting_(setting),
          limits_(limits),
          limit_(limits.effective()),
          fixed_(options.cache_bytes.has_value()),
          bounds_{options.cache_ceiling_bytes, options.cache_floor_bytes} {}

    cache::UbatchChoice choose() const {
        const auto plan_of = [&](uint32_t n_ubatch) { return plan(n_ubatch); };
        return options_.n_ubatch != 0 ? cache::UbatchChoice{options_.n_ubatch, plan_of(options_.n_ubatch)}
                                      : cache::choose_ubatch(plan_of, limit_, options_.n_ctx, fixed_);
    }

    // Throws where that is so.
    void refuse_too_little(const cache::MemoryPlan &chosen) const {
        if (chosen.total() > limit_) {
            throw Error(cat(options_.model, ": needs ", chosen.describe(), fixed_ ? "" : ", without an expert cache",
                            ", but there are ", limits_.describe(), least_ram(limits_, least_bytes(chosen)),
                            "; give a smaller ", fixed_ ? "--cache-mb, " : "", "-c or --ubatch, or more memory"));
        }
        if (!fixed_ && chosen.slots < floor()) {
            const cache::MemoryPlan smallest =
                cache::plan_fixed(measure_items(options_, model_, setting_, smallest_ubatch()), 0);
            const uint64_t taken = smallest.total() + cache::reserve(limit_);
            throw Error(cat(
                options_.model, ": ", (limit_ - std::min(limit_, taken)) / kMiB,
                " MiB are free for experts, fewer than --cache-floor-mb ", options_.cache_floor_bytes / kMiB,
                ": there are ", limits_.describe(), ", and everything else and a reserve need ", smallest.describe(),
                least_ram(limits_, least_bytes(smallest)), "; give a smaller --cache-floor-mb or -c, or more memory"));
        }
    }

  private:
    // One that exceeds the limit has no slots, or as many as the caller wants.
    cache::MemoryPlan plan(uint32_t n_ubatch) const {
        const cache::MemoryPlan plan =
            cache::plan_fixed(measure_items(options_, model_, setting_, n_ubatch), options_.cache_bytes.value_or(0));
        return fixed_ || plan.total() > limit_
                   ? plan
                   : cache::plan_auto(plan.items, setting_.store->geometry(), limit_, bounds_);
    }

    uint32_t smallest_ubatch() const { return options_.n_ubatch != 0 ? options_.n_ubatch : cache::kSmallestUbatch; }

    uint64_t floor() const {
        return std::min(bounds_.floor, cache::SlotPool::whole_budget(setting_.store->geometry()));
    }

    // That a plan which was refused, with the smallest ubatch, would be made in.
    uint64_t least_bytes(const cache::MemoryPlan &plan) const {
        return fixed_ || bounds_.floor == 0 ? plan.total() : cache::with_reserve(plan.total() + floor());
    }

    const Options &options_;
    llama_model *model_;
    const ContextSetting &setting_;
    const cache::MemoryLimits &limits_;
    uint64_t limit_;
    bool fixed_;  // bytes of slots
    cache::CacheBounds bounds_;
};

}  // namespace

cache::UbatchChoice plan_memory(const Options &options, llama_model *model, const ContextSetting &setting,
                                const cache::MemoryLimits &limits) {
    const Planner planner(options, model, setting, limits);
    cache::UbatchChoice choice = planner.choose();
    planner.refuse_too_little(choice.plan);
    if (!options.cache_bytes.has_value() && choice.plan.slots == 0) {
        options.note(cat("no expert cache: ", limits.describe(), "; everything else and a reserve need ",
                         choice.plan.describe()));
    }
    return choice;
}

cache::UbatchChoice plan_resident(const Options &options, llama_model *model, const ContextSetting &setting,
                                  const cache::MemoryLimits &limits) {
    const auto plan_of = [&](uint32_t n_ubatch) {
        cache::MemoryPlan plan = cache::plan_fixed(measure_items(options, model, setting, n_ubatch), 0);
        plan.experts = std::min(mib_up(setting.file->expert_bytes()) * kMiB, plan.items.dense);
        plan.items.dense -= plan.experts;
        return plan;
    };
    const uint64_t limit = limits.effective();
    cache::UbatchChoice choice;
    choice.n_ubatch = options.n_ubatch != 0 ? options.n_ubatch : cache::kUsualUbatch;
    choice.plan = plan_of(choice.n_ubatch);
    while (options.n_ubatch == 0 && choice.n_ubatch > cache::kSmallestUbatch &&
           choice.plan.total() + cache::reserve(limit) > limit) {
        choice.n_ubatch /= 2;
        choice.plan = plan_of(choice.n_ubatch);
    }
    return choice;
}

std::string least_ram(const cache::MemoryLimits &limits, uint64_t bytes) {
    if (limits.allowed == 0) {
        return {};
    }
    const uint64_t mib = mib_up(bytes);
    return bytes <= limits.free()
               ? cat("; the smallest --ram that works here is ", mib, "M")
               : cat("; --ram ", mib, "M would do, but only ", limits.free() / kMiB, " MiB are free");
}

}  // namespace bmoe::engine
