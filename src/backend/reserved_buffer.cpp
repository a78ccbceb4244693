#include "backend/reserved_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "ggml-backend-impl.h"

namespace bmoe::backend {

namespace {

struct Reservation {
    std::unique_ptr<ReservedContents> contents;
    void *base = nullptr;
    size_t size = 0;
};

Reservation &reservation(ggml_backend_buffer_t buffer) { return *static_cast<Reservation *>(buffer->context); }

void free_buffer(ggml_backend_buffer_t buffer) {
    Reservation &reserved = reservation(buffer);
    munmap(reserved.base, reserved.size);
    delete &reserved;
}

void *buffer_base(ggml_backend_buffer_t buffer) { return reservation(buffer).base; }

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor *tensor) {
    return reservation(buffer).contents->place(*tensor);
}

void get_tensor(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *data, size_t offset, size_t size) {
    reservation(buffer).contents->read(*tensor, data, offset, size);
}

void set_tensor(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}

void memset_tensor(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}

void clear_buffer(ggml_backend_buffer_t, uint8_t) {}

}  // namespace

ggml_backend_buffer_t make_reserved_buffer(ggml_backend_buffer_type_t type, size_t size,
                                           std::unique_ptr<ReservedContents> contents) {
    auto reserved = std::make_unique<Reservation>();
    reserved->contents = std::move(contents);
    reserved->size = std::max<size_t>(size, 1);
    reserved->base = mmap(nullptr, reserved->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved->base == MAP_FAILED) {
        return nullptr;
    }
    ggml_backend_buffer_i interface {};
    interface.free_buffer = free_buffer;
    interface.get_base = buffer_base;
    interface.init_tensor = init_tensor;
    interface.memset_tensor = memset_tensor;
    interface.set_tensor = set_tensor;
    interface.get_tensor = get_tensor;
    interface.clear = clear_buffer;
    return ggml_backend_buffer_init(type, interface, reserved.release(), size);
}

}  // namespace bmoe::backend
