// The buffer type of streamed expert tensors: addresses without memory behind them. What the tensors hold stays in the file;
// the executor asks the store for it, expert by expert.
#pragma once

#include "ggml-backend.h"

namespace bmoe::backend {

class ExpertStore;

// The store whose model the calling thread loads, or nullptr. See LoadScope.
ExpertStore *store_being_loaded();

ggml_backend_dev_t expert_device();

}  // namespace bmoe::backend
