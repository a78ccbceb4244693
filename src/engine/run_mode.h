// Whether a model is streamed, or how it runs instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cache/memory_limits.h"
#include "cache/ubatch_choice.h"
#include "engine/memory_items.h"
#include "engine/model_loader.h"
#include "engine/options.h"

namespace bmoe::engine {

struct RunMode {
    bool streams = false;
    bool resident = false;  // otherwise: the whole model in memory of its own, not mapped
    std::string why;        // for the user; empty where streaming is what was asked for
    std::optional<uint64_t>
        least_resident;           // of a streamed run that may be refused: bytes in which it would not be streamed
    cache::UbatchChoice planned;  // of a run that is not streamed: its ubatch, and its plan if there is one
};

// As the options want it and `limits` allow. `setting` is one without a store. Throws bmoe::Error where a model without experts
// does not fit under Options::ram_bytes.
RunMode choose_run_mode(const Options &options, const Overrides &overrides, const ContextSetting &setting,
                        const cache::MemoryLimits &limits);

}  // namespace bmoe::engine
