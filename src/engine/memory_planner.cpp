#include "engine/memory_planner.h"

#include <algorithm>

#include "backend/expert_store.h"
#include "base/error.h"
#include "base/mib.h"
#include "cache/slot_pool.h"
#include "gguf/model_file.h"

namespace bmoe::engine {

namespace {

uint32_t smallest_ubatch(const Options &options) {
    return options.n_ubatch != 0 ? options.n_ubatch : cache::kSmallestUbatch;
}

cache::MemoryPlan resident_plan(const Options &options, llama_model *model, const ContextSetting &setting,
                                uint32_t n_ubatch) {
    cache::MemoryPlan plan = cache::plan_fixed(measure_items(options, model, setting, n_ubatch), 0);
    plan.experts = std::min(mib_up(setting.file->expert_bytes()) * kMiB, plan.items.dense);
    plan.items.dense -= plan.experts;
    return plan;
}

class Planner {
  public:
    Planner(const Options &options, llama_model *model, const ContextSetting &setting,
            const cache::MemoryLimits &limits, std::optional<uint64_t> least_resident)
        : options_(options),
          model_(model),
          setting_(setting),
          limits_(limits),
          least_resident_(least_resident),
          limit_(limits.effective()),
          smallest_cache_(cache::SlotPool::minimum_budget(setting.store->geometry())),
          whole_cache_(cache::SlotPool::whole_budget(setting.store->geometry())),
          fixed_(options.cache_bytes.has_value()),
          bounds_{options.cache_ceiling_bytes, options.cache_floor_bytes} {}

    // Throws where no amount of memory would do: a cache too small for a layer.
    void refuse_impossible_cache() const {
        if (options_.cache_bytes.value_or(0) > 0) {
            cache::SlotPool::check_budget(setting_.store->geometry(), *options_.cache_bytes);
        }
        if (!fixed_ && bounds_.floor > 0 && ceiling_is_too_small()) {
            throw Error(cat(options_.model, ": ", small_ceiling(), "; give --cache-ceil-mb ", mib_up(smallest_cache_),
                            " or more, or --cache-mb 0 for no cache"));
        }
    }

    cache::UbatchChoice choose() const {
        const auto plan_of = [&](uint32_t n_ubatch) { return plan(n_ubatch); };
        return options_.n_ubatch != 0 ? cache::UbatchChoice{options_.n_ubatch, plan_of(options_.n_ubatch)}
                                      : cache::choose_ubatch(plan_of, limit_, options_.n_ctx, fixed_);
    }

    // Throws where that is so.
    void refuse_too_little(const cache::MemoryPlan &chosen) const {
        if (chosen.total() > limit_) {
            const cache::MemoryPlan smallest = smallest_plan();
            throw Error(cat(options_.model, ": needs ", smallest.describe(), without_cache(), ", but there are ",
                            limits_.describe(), would_do(smallest), "; give a smaller ", fixed_ ? "--cache-mb, " : "",
                            "-c or --ubatch, or more memory"));
        }
        if (!fixed_ && chosen.slots < floor()) {
            const cache::MemoryPlan smallest = smallest_plan();
            const uint64_t taken = smallest.total() + cache::reserve(limit_);
            throw Error(cat(options_.model, ": ", (limit_ - std::min(limit_, taken)) / kMiB,
                            " MiB are free for experts, fewer than --cache-floor-mb ",
                            options_.cache_floor_bytes / kMiB, floor_in_words(), ": there are ", limits_.describe(),
                            ", and everything else and a reserve need ", smallest.describe(), would_do(smallest),
                            "; give a smaller --cache-floor-mb or -c, or more memory"));
        }
    }

    // Why a plan that was made has no cache although one was to be chosen.
    std::string no_cache(const cache::MemoryPlan &chosen) const {
        return ceiling_is_too_small() ? cat("no expert cache: ", small_ceiling())
                                      : cat("no expert cache: ", limits_.describe(),
                                            "; everything else and a reserve need ", chosen.describe());
    }

  private:
    // One that exceeds the limit has no slots, or as many as the caller wants.
    cache::MemoryPlan plan(uint32_t n_ubatch) const {
        const cache::MemoryPlan plan = cache::plan_fixed(measure_items(options_, model_, setting_, n_ubatch),
                                                         std::min(options_.cache_bytes.value_or(0), whole_cache_));
        return fixed_ || plan.total() > limit_
                   ? plan
                   : cache::plan_auto(plan.items, setting_.store->geometry(), limit_, bounds_);
    }

    // Of the smallest ubatch; without slots unless their number is fixed.
    cache::MemoryPlan smallest_plan() const {
        return cache::plan_fixed(measure_items(options_, model_, setting_, smallest_ubatch(options_)),
                                 std::min(options_.cache_bytes.value_or(0), whole_cache_));
    }

    // Bytes of the least cache that is run with; 0: with none.
    uint64_t floor() const {
        return bounds_.floor == 0 ? 0 : std::max(smallest_cache_, std::min(bounds_.floor, whole_cache_));
    }

    // Empty where it is the number that was given.
    std::string floor_in_words() const {
        if (bounds_.floor < smallest_cache_) {
            return cat(" (the smallest cache of this model is ", mib_up(smallest_cache_), " MiB)");
        }
        return bounds_.floor > whole_cache_ ? cat(" (all experts are ", mib_up(whole_cache_), " MiB)") : "";
    }

    std::string without_cache() const {
        if (fixed_) {
            return "";
        }
        return floor() == 0
                   ? ", without an expert cache"
                   : cat(", and --cache-floor-mb ", bounds_.floor / kMiB, floor_in_words(), " and a reserve beside it");
    }

    bool ceiling_is_too_small() const { return bounds_.ceiling > 0 && bounds_.ceiling < smallest_cache_; }

    std::string small_ceiling() const {
        return cat("--cache-ceil-mb ", bounds_.ceiling / kMiB, " is less than the smallest cache of this model, ",
                   mib_up(smallest_cache_), " MiB");
    }

    // What --ram would have to be, if one was given, where `smallest` was refused.
    std::string would_do(const cache::MemoryPlan &smallest) const {
        if (limits_.allowed == 0) {
            return "";
        }
        const uint64_t streamed = floor() == 0 ? smallest.total() : cache::with_reserve(smallest.total() + floor());
        return least_resident_ && mib_up(*least_resident_) < mib_up(streamed)
                   ? least_ram(limits_, *least_resident_) + ", with all experts in memory and nothing streamed"
                   : least_ram(limits_, streamed);
    }

    const Options &options_;
    llama_model *model_;
    const ContextSetting &setting_;
    const cache::MemoryLimits &limits_;
    std::optional<uint64_t> least_resident_;
    uint64_t limit_;
    uint64_t smallest_cache_;
    uint64_t whole_cache_;
    bool fixed_;  // bytes of slots
    cache::CacheBounds bounds_;
};

}  // namespace

cache::UbatchChoice plan_memory(const Options &options, llama_model *model, const ContextSetting &setting,
                                const cache::MemoryLimits &limits, std::optional<uint64_t> least_resident) {
    const Planner planner(options, model, setting, limits, least_resident);
    planner.refuse_impossible_cache();
    cache::UbatchChoice choice = planner.choose();
    planner.refuse_too_little(choice.plan);
    if (!options.cache_bytes.has_value() && choice.plan.slots == 0) {
        options.note(planner.no_cache(choice.plan));
    }
    return choice;
}

cache::UbatchChoice plan_resident(const Options &options, llama_model *model, const ContextSetting &setting,
                                  const cache::MemoryLimits &limits) {
    const auto plan_of = [&](uint32_t n_ubatch) { return resident_plan(options, model, setting, n_ubatch); };
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

cache::MemoryPlan smallest_resident_plan(const Options &options, llama_model *model, const ContextSetting &setting) {
    return resident_plan(options, model, setting, smallest_ubatch(options));
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
