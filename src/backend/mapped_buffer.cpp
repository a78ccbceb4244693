#include "backend/mapped_buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "ggml-backend-impl.h"

namespace bmoe::backend {

namespace {

thread_local std::shared_ptr<const gguf::ModelMapping> loading;

// ggml gives every tensor an address in its buffer before it shows it to init_tensor: reserved ones, closed to every access.
struct MappedBuffer {
    std::shared_ptr<const gguf::ModelMapping> mapping;
    void *base = nullptr;
    size_t size = 0;
};

MappedBuffer &mapped(ggml_backend_buffer_t buffer) { return *static_cast<MappedBuffer *>(buffer->context); }

void free_buffer(ggml_backend_buffer_t buffer) {
    MappedBuffer &own = mapped(buffer);
    munmap(own.base, own.size);
    delete &own;
}

void *buffer_base(ggml_backend_buffer_t buffer) { return mapped(buffer).base; }

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor *tensor) {
    if (tensor->view_src != nullptr) {
        return GGML_STATUS_SUCCESS;  // points into another tensor already
    }
    const std::byte *data = mapped(buffer).mapping->find(tensor->name);
    if (data == nullptr) {
        return GGML_STATUS_FAILED;
    }
    tensor->data = const_cast<std::byte *>(data);
    return GGML_STATUS_SUCCESS;
}

// The file is there already.
void set_tensor(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}

void memset_tensor(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}

void get_tensor(ggml_backend_buffer_t, const ggml_tensor *tensor, void *data, size_t offset, size_t size) {
    std::memcpy(data, static_cast<const std::byte *>(tensor->data) + offset, size);
}

void clear_buffer(ggml_backend_buffer_t, uint8_t) {}

const char *type_name(ggml_backend_buffer_type_t) { return "bmoe page cache"; }

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    if (loading == nullptr) {
        return nullptr;
    }
    auto own = std::make_unique<MappedBuffer>();
    own->mapping = loading;
    own->size = size > 0 ? size : 1;
    own->base = mmap(nullptr, own->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (own->base == MAP_FAILED) {
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
    return ggml_backend_buffer_init(type, interface, own.release(), size);
}

// That of GGUF files.
size_t alignment(ggml_backend_buffer_type_t) { return 32; }

bool is_host(ggml_backend_buffer_type_t) { return true; }

}  // namespace

MappingScope::MappingScope(std::shared_ptr<const gguf::ModelMapping> mapping) { loading = std::move(mapping); }

MappingScope::~MappingScope() { loading = nullptr; }

ggml_backend_buffer_type_t mapped_buffer_type() {
    // Of no device, as the CPU's own buffer type is.
    static ggml_backend_buffer_type type = {
        {type_name, alloc_buffer, alignment, nullptr, nullptr, is_host}, nullptr, nullptr};
    return &type;
}

}  // namespace bmoe::backend
