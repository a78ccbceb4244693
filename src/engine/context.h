// llama.cpp's context, as the options want it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/llama_handles.h"
#include "engine/options.h"

namespace bmoe::backend {
class ExpertStore;
}

namespace bmoe::engine {

// What Options::kv_type_k and kv_type_v may be.
const std::vector<std::string> &kv_types();

// Of such values llama.cpp needs flash attention. `name` is one of kv_types().
bool is_quantized_kv_type(const std::string &name);

// A context of `model` that computes with `pool` of `threads` threads, and streams from `store` if that is not nullptr. Both
// must outlive it. Of a model that was only measured it is simulated. Throws bmoe::Error.
ContextPtr make_context(const Options &options, llama_model *model, ggml_threadpool *pool, int threads,
                        backend::ExpertStore *store, uint32_t n_ubatch);

}  // namespace bmoe::engine
