// The memory plan of a streaming run, from llama.cpp's own simulation of the model and its context.
#pragma once

#include <cstdint>

#include "cache/memory_plan.h"
#include "cache/ubatch_choice.h"
#include "engine/llama_handles.h"
#include "engine/options.h"

namespace bmoe::backend {
class ExpertStore;
}

namespace bmoe::engine {

// What a context is made for. The pointers must outlive the planning.
struct ContextSetting {
    ggml_threadpool *pool = nullptr;
    int threads = 1;
    backend::ExpertStore *store = nullptr;
};

// Chooses the ubatch, if the options leave it open, and the bytes of expert slots. `model` is one that was only measured.
// Throws bmoe::Error, with the items, if it does not fit into `limits`.
cache::UbatchChoice plan_memory(const Options &options, llama_model *model, const ContextSetting &setting,
                                const cache::MemoryLimits &limits);

}  // namespace bmoe::engine
