// A model file as one GGUF stream, whatever its shards: a merged header, then the tensors' data. What llama.cpp reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "gguf/model_file.h"
#include "gguf/stream_layout.h"
#include "io/bulk_reader.h"

namespace bmoe::gguf {

class VirtualGguf {
  public:
    // Asked once for each range of one tensor's data that a read covers, about to be read to `dst`: true if it is to be
    // passed over. The position then advances and the destination is not touched.
    using Skip = std::function<bool(const Tensor &tensor, const void *dst)>;

    // `model` and `reader` must outlive the stream. Without a `skip` nothing is passed over.
    VirtualGguf(const ModelFile &model, io::BulkReader &reader, Skip skip);

    uint64_t size() const { return layout_.size; }  // bytes of the stream

    // Reads up to `n` bytes at `pos`; returns the bytes advanced, 0 at the end or after an error. Padding reads as
    // zeros. After an error all reads return 0. Throws nothing: an exception of `skip` is kept as the error. One thread
    // at a time.
    size_t read(uint64_t pos, void *dst, size_t n);

    const std::string &error() const { return error_; }  // first error, empty if none
    uint64_t served_bytes() const { return served_; }    // tensor data read from disk
    uint64_t skipped_bytes() const { return skipped_; }  // tensor data passed over

  private:
    size_t read_piece(uint64_t pos, std::byte *dst, size_t n);
    size_t read_tensor(const Tensor &tensor, uint64_t begin, std::byte *dst, size_t n);

    const ModelFile &model_;
    io::BulkReader &reader_;
    Skip skip_;
    StreamLayout layout_;
    uint64_t served_ = 0;
    uint64_t skipped_ = 0;
    std::string error_;
};

}  // namespace bmoe::gguf
