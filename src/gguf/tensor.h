// A tensor of a model that may lie in several files.
#pragma once

#include <cstdint>

#include "gguf/header.h"

namespace bmoe::gguf {

struct Tensor {
    TensorInfo info;     // offset is within the shard's file
    uint32_t shard = 0;  // index into ModelFile::shards()
};

}  // namespace bmoe::gguf
