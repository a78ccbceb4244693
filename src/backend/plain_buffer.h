// The buffer type of weights that llama.cpp leaves as they are in the file.
//
// It is the CPU's own under another name: told to use the CPU's, llama.cpp would still rearrange weights for faster kernels.
#pragma once

#include "ggml-backend.h"

namespace bmoe::backend {

ggml_backend_buffer_type_t plain_buffer_type();

}  // namespace bmoe::backend
