// A ggml buffer of addresses without memory behind them, closed to every access: what its tensors hold is elsewhere.
#pragma once

#include <cstddef>
#include <memory>

#include "ggml-backend.h"

namespace bmoe::backend {

// Where the tensors of such a buffer are. Nothing can be stored in one, and nothing tries to once a model is loaded.
class ReservedContents {
  public:
    virtual ~ReservedContents() = default;

    // A tensor gets its place, in the buffer's addresses; it may be given another.
    virtual ggml_status place(ggml_tensor &tensor) = 0;

    // Copies `size` bytes from `offset` on.
    virtual void read(const ggml_tensor &tensor, void *data, size_t offset, size_t size) const = 0;
};

// nullptr if there are not so many addresses.
ggml_backend_buffer_t make_reserved_buffer(ggml_backend_buffer_type_t type, size_t size,
                                           std::unique_ptr<ReservedContents> contents);

}  // namespace bmoe::backend
