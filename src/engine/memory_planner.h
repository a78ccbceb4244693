// The memory plan of a run, streaming or not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cache/memory_limits.h"
#include "cache/memory_plan.h"
#include "cache/ubatch_choice.h"
#include "engine/memory_items.h"

namespace bmoe::engine {

// Chooses the ubatch, if the options leave it open, and the bytes of expert slots. `model` is one that was only measured.
// Throws bmoe::Error, with the items, if it does not fit into `limits`. `least_resident`: bytes in which it would not be streamed;
// empty if it always is.
cache::UbatchChoice plan_memory(const Options &options, llama_model *model, const ContextSetting &setting,
                                const cache::MemoryLimits &limits, std::optional<uint64_t> least_resident);

// The plan with all experts in memory. One that exceeds `limits` is not refused, and has the smallest ubatch.
cache::UbatchChoice plan_resident(const Options &options, llama_model *model, const ContextSetting &setting,
                                  const cache::MemoryLimits &limits);

// The plan of fewest bytes with all experts in memory.
cache::MemoryPlan smallest_resident_plan(const Options &options, llama_model *model, const ContextSetting &setting);

// For a plan of `bytes` that was refused: what --ram would have to be, if one was given; else empty.
std::string least_ram(const cache::MemoryLimits &limits, uint64_t bytes);

}  // namespace bmoe::engine
