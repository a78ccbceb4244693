// What a model in a context takes, item by item, from llama.cpp's own simulation of both.
#pragma once

#include <cstdint>

#include "cache/memory_plan.h"
#include "engine/llama_handles.h"
#include "engine/options.h"

namespace bmoe::backend {
class ExpertStore;
}
namespace bmoe::gguf {
class ModelFile;
}

namespace bmoe::engine {

// What a context is made for. What it points to must outlive the planning.
struct ContextSetting {
    const gguf::ModelFile *file = nullptr;
    ggml_threadpool *pool = nullptr;
    int threads = 1;
    backend::ExpertStore *store = nullptr;  // nullptr: nothing is streamed
    uint64_t held_before = 0;               // bytes that the process had before the engine was opened
};

// Items in whole MiB. `model` is one that was only measured. Where nothing is streamed, `dense` is all weights. `other` has what
// the process held before only if Options::ram_bytes holds for the whole process; else that is not free any more anyway.
cache::MemoryItems measure_items(const Options &options, llama_model *model, const ContextSetting &setting,
                                 uint32_t n_ubatch);

}  // namespace bmoe::engine
