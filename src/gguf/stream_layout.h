// How the files of a model lie in one GGUF stream: a merged header, then the data of all tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/header.h"
#include "gguf/tensor.h"

namespace bmoe::gguf {

struct StreamLayout {
    struct Extent {
        uint64_t begin = 0;  // in the stream
        const Tensor *tensor = nullptr;
    };
    std::vector<std::byte> header;  // the stream's start; all that is neither header nor tensor data is zero padding
    std::vector<Extent> extents;    // ascending, in the order of the tensors
    uint64_t size = 0;              // bytes, with the padding after the last tensor
};

// Lays `tensors` out under the metadata of shard 1, at its alignment and without its split keys. The layout points into
// `tensors`. Throws bmoe::Error naming `path` if the stream would be larger than a file can be.
StreamLayout lay_out_stream(const Header &metadata, const std::vector<Tensor> &tensors, const std::string &path);

}  // namespace bmoe::gguf
