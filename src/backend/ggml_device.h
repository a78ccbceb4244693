// The ggml device: an accelerator, in llama.cpp's terms, that owns routed-expert tensors and multiplies by them.
//
// It is registered once per process. It offers its buffer type only while a model is loaded on the calling thread under a
// LoadScope, and only for tensors that are banks of that model; so a model loaded without one is untouched by it.
#pragma once

#include "ggml-backend.h"

namespace bmoe::backend {

struct BankRef;
class ExpertStore;

// While it lives, llama.cpp on this thread places the banks of `store` in expert buffers.
class LoadScope {
  public:
    explicit LoadScope(ExpertStore &store);
    ~LoadScope();
    LoadScope(const LoadScope &) = delete;
    LoadScope &operator=(const LoadScope &) = delete;
};

// While it lives, contexts created on this thread compute expert splits in `pool`, and `store`, if any, learns from their
// graphs.
class ContextScope {
  public:
    ContextScope(ggml_threadpool *pool, ExpertStore *store);
    ~ContextScope();
    ContextScope(const ContextScope &) = delete;
    ContextScope &operator=(const ContextScope &) = delete;
};

// The bank that `tensor` holds, or nullptr if it is not in an expert buffer.
BankRef *placed_bank(const ggml_tensor *tensor);

ggml_backend_buffer_type_t expert_buffer_type();

}  // namespace bmoe::backend
