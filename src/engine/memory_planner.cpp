#include "engine/memory_planner.h"

#include "backend/ggml_device.h"
#include "backend/expert_store.h"
#include "base/error.h"
#include "engine/context.h"
#include "llama-ext.h"

namespace bmoe::engine {

namespace {

// Program, vocabulary, graph metadata and allocator slack; the rest is itemised.
constexpr uint64_t kOtherBytes = uint64_t{96} << 20;

class Planner {
  public:
    Planner(const Options &options, llama_model *model, const ContextSetting &setting, uint64_t limit)
        : options_(options), model_(model), setting_(setting), limit_(limit) {}

    // One that exceeds the limit has no slots, or as many as the caller wants.
    cache::MemoryPlan plan(uint32_t n_ubatch) const {
        const cache::MemoryPlan plan = cache::plan_fixed(measure(n_ubatch), options_.cache_bytes.value_or(0));
        return options_.cache_bytes.has_value() || plan.total() > limit_
                   ? plan
                   : cache::plan_auto(plan.items, setting_.store->geometry(), limit_);
    }

  private:
    cache::MemoryItems measure(uint32_t n_ubatch) const {
        const ContextPtr context =
            make_context(options_, model_, setting_.pool, setting_.threads, setting_.store, n_ubatch);
        cache::MemoryItems items;
        for (const auto &[type, data] : llama_get_memory_breakdown(context.get())) {
            items.dense += type == backend::expert_buffer_type() ? 0 : data.model;
            items.kv += data.context;
            items.compute += data.compute;
        }
        items.staging = setting_.store->staging_bytes();
        items.other = kOtherBytes;
        return items;
    }

    const Options &options_;
    llama_model *model_;
    const ContextSetting &setting_;
    uint64_t limit_;
};

}  // namespace

cache::UbatchChoice plan_memory(const Options &options, llama_model *model, const ContextSetting &setting,
                                const cache::MemoryLimits &limits) {
    const uint64_t limit = limits.effective();
    const Planner planner(options, model, setting, limit);
    const auto plan_of = [&](uint32_t n_ubatch) { return planner.plan(n_ubatch); };
    const bool fixed = options.cache_bytes.has_value();
    cache::UbatchChoice choice = options.n_ubatch != 0
                                     ? cache::UbatchChoice{options.n_ubatch, plan_of(options.n_ubatch)}
                                     : cache::choose_ubatch(plan_of, limit, options.n_ctx, fixed);
    if (choice.plan.total() > limit) {
        throw Error(cat(options.model, ": needs ", choice.plan.describe(), fixed ? "" : ", without an expert cache",
                        ", but there are ", limits.describe(), "; give a smaller ", fixed ? "--cache-mb, " : "",
                        "-c or --ubatch, or more memory"));
    }
    if (!fixed && choice.plan.slots == 0) {
        options.note(cat("no expert cache: ", limits.describe(), "; everything else and a reserve need ",
                         choice.plan.describe()));
    }
    return choice;
}

}  // namespace bmoe::engine
