#include "engine/run_mode.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mib.h"
#include "engine/memory_planner.h"
#include "gguf/model_file.h"

namespace bmoe::engine {

namespace {

// Of options that say more than that experts may be streamed; empty without any.
std::string reason_to_stream(const Options &options, uint64_t expert_bytes) {
    if (!options.route_replay.empty()) {
        return "--route-replay is for streamed experts";
    }
    if (options.cache_bytes.has_value() && *options.cache_bytes < expert_bytes) {
        return cat("--cache-mb ", *options.cache_bytes / kMiB, " is less than all experts take");
    }
    if (options.cache_ceiling_bytes > 0 && options.cache_ceiling_bytes < expert_bytes) {
        return cat("--cache-ceil-mb ", options.cache_ceiling_bytes / kMiB, " is less than all experts take");
    }
    return {};
}

// As plain llama.cpp.
RunMode plain(const Options &options, std::string why) {
    RunMode mode;
    mode.resident = options.resident;
    mode.why = std::move(why);
    mode.planned.n_ubatch = options.n_ubatch != 0 ? options.n_ubatch : cache::kUsualUbatch;
    return mode;
}

RunMode streamed(std::string why) {
    RunMode mode;
    mode.streams = true;
    mode.why = std::move(why);
    return mode;
}

// Only where a cache is asked for can all experts be less than what streaming takes. Measured before anything is streamed: from
// then on ggml has another device, and llama.cpp's buffers are others.
bool may_need_less_resident(const Options &options, uint64_t expert_bytes) {
    const bool asks_for_cache = options.cache_bytes.has_value() || options.cache_floor_bytes > 0;
    return options.ram_bytes > 0 && options.stream_if_needed && asks_for_cache &&
           reason_to_stream(options, expert_bytes).empty();
}

// The least memory in which choose() has the model run resident.
uint64_t least_resident_bytes(const Options &options, const Overrides &overrides, const ContextSetting &setting) {
    const gguf::ModelFile &file = *setting.file;
    const ModelPtr measured = load_plain(options, file, overrides, LoadMode::kMeasure);
    const cache::MemoryPlan plan = smallest_resident_plan(options, measured.get(), setting);
    return std::max(file.dense_bytes() + file.expert_bytes(), cache::with_reserve(plan.total()));
}

RunMode choose(const Options &options, const Overrides &overrides, const ContextSetting &setting,
               const cache::MemoryLimits &limits) {
    const gguf::ModelFile &file = *setting.file;
    const bool has_experts = !file.expert_layers().empty();
    if (!options.stream) {
        return plain(options, has_experts ? "not streaming" : "the model has no experts");
    }
    const uint64_t limit = limits.effective();
    if (!has_experts) {
        if (options.ram_bytes == 0) {
            return plain(options, "the model has no experts");
        }
    } else {
        if (!options.stream_if_needed) {
            return streamed("");
        }
        if (const std::string reason = reason_to_stream(options, file.expert_bytes()); !reason.empty()) {
            return streamed(reason);
        }
        if (const uint64_t weights = file.dense_bytes() + file.expert_bytes(); weights > limit) {
            return streamed(
                cat("the model's weights are ", mib_up(weights), " MiB, and there are ", limits.describe()));
        }
    }
    const ModelPtr measured = load_plain(options, file, overrides, LoadMode::kMeasure);
    const cache::UbatchChoice planned = plan_resident(options, measured.get(), setting, limits);
    const uint64_t needed = planned.plan.total();
    if (!has_experts && needed > limit) {
        throw Error(cat(options.model, ": has no experts that could be streamed, and needs ", planned.plan.describe(),
                        ", but there are ", limits.describe(), least_ram(limits, needed),
                        "; give a smaller -c or --ubatch, or more memory"));
    }
    const bool fits = needed + cache::reserve(limit) <= limit;
    const std::string comparison = cat("the model needs ", mib_up(needed + cache::reserve(limit)),
                                       " MiB with its context and a reserve, and there are ", limits.describe());
    if (has_experts && !fits) {
        return streamed(comparison);
    }
    RunMode mode;
    mode.resident = true;
    mode.why = has_experts ? "not streaming: " + comparison : "the model has no experts";
    mode.planned = planned;
    return mode;
}

}  // namespace

RunMode choose_run_mode(const Options &options, const Overrides &overrides, const ContextSetting &setting,
                        const cache::MemoryLimits &limits) {
    RunMode mode = choose(options, overrides, setting, limits);
    if (mode.streams && may_need_less_resident(options, setting.file->expert_bytes())) {
        mode.least_resident = least_resident_bytes(options, overrides, setting);
    }
    return mode;
}

}  // namespace bmoe::engine
