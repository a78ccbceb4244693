// What a model is, whatever its files are called and wherever they lie.
#pragma once

#include <cstdint>

#include "gguf/model_file.h"

namespace bmoe::gguf {

// A hash of the sizes of the shards, the metadata and the table of tensors. The weights are not read: two models that differ
// in nothing else have the same fingerprint. The same file split differently has another one.
uint64_t fingerprint(const ModelFile &model);

}  // namespace bmoe::gguf
