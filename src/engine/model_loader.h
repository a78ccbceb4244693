// Loads a model into llama.cpp: through the virtual GGUF, its experts left on storage, or as plain llama.cpp does.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/llama_handles.h"
#include "engine/options.h"

namespace bmoe::backend {
class ExpertStore;
}
namespace bmoe::gguf {
class ModelFile;
}

namespace bmoe::engine {

// Of metadata, for llama.cpp; ends with an empty key, or is empty.
using Overrides = std::vector<llama_model_kv_override>;

struct LoadedModel {
    ModelPtr model;
    uint64_t dense_bytes_read = 0;    // tensor data in memory
    uint64_t dense_bytes_mapped = 0;  // tensor data in the page cache, or to come there
    uint64_t expert_bytes = 0;        // routed experts, left on storage
};

// kMeasure simulates: no weights are read, nothing large is allocated.
enum class LoadMode { kRead, kMeasure };

// Through the virtual GGUF: the banks of `store` are skipped. Throws bmoe::Error.
LoadedModel load_streamed(const Options &options, const gguf::ModelFile &file, backend::ExpertStore &store,
                          const Overrides &overrides, LoadMode mode);

// By llama.cpp itself. Throws bmoe::Error.
ModelPtr load_plain(const Options &options, const gguf::ModelFile &file, const Overrides &overrides, LoadMode mode);

}  // namespace bmoe::engine
