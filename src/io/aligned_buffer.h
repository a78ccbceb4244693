// Memory whose address and size fit direct I/O.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace bmoe::io {

class AlignedBuffer {
  public:
    // `alignment` is a power of two. The bytes are not initialised.
    AlignedBuffer(size_t size, size_t alignment)
        : bytes_(static_cast<std::byte *>(::operator new (size, std::align_val_t{alignment})), Free{alignment}) {}

    std::byte *data() const { return bytes_.get(); }

  private:
    struct Free {
        size_t alignment;
        void operator()(std::byte *bytes) const { ::operator delete (bytes, std::align_val_t{alignment}); }
    };
    std::unique_ptr<std::byte, Free> bytes_;
};

}  // namespace bmoe::io
