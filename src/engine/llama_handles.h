// Owners of llama.cpp's objects.
#pragma once

#include <memory>

#include "ggml-cpu.h"
#include "llama.h"

namespace bmoe::engine {

struct FreeModel {
    void operator()(llama_model *model) const { llama_model_free(model); }
};
struct FreeContext {
    void operator()(llama_context *context) const { llama_free(context); }
};
struct FreePool {
    void operator()(ggml_threadpool *pool) const { ggml_threadpool_free(pool); }
};
struct FreeSampler {
    void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); }
};

using ModelPtr = std::unique_ptr<llama_model, FreeModel>;
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;
using PoolPtr = std::unique_ptr<ggml_threadpool, FreePool>;
using SamplerPtr = std::unique_ptr<llama_sampler, FreeSampler>;

}  // namespace bmoe::engine
