// The buffer type of dense weights that stay in the page cache: its tensors point into a mapping of the model's files.
//
// To ggml it is memory of the host like any other, so that the CPU backend computes with it in place. Nothing may be written
// to it, and nothing is once a model is loaded.
#pragma once

#include <memory>

#include "ggml-backend.h"
#include "gguf/model_mapping.h"

namespace bmoe::backend {

// While it lives, buffers of mapped_buffer_type() that this thread makes are of `mapping`, and keep it.
class MappingScope {
  public:
    explicit MappingScope(std::shared_ptr<const gguf::ModelMapping> mapping);
    ~MappingScope();
    MappingScope(const MappingScope &) = delete;
    MappingScope &operator=(const MappingScope &) = delete;
};

ggml_backend_buffer_type_t mapped_buffer_type();

}  // namespace bmoe::backend
