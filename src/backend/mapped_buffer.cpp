#include "backend/mapped_buffer.h"

#include <cstring>
#include <utility>

#include "backend/reserved_buffer.h"
#include "ggml-backend-impl.h"

namespace bmoe::backend {

namespace {

thread_local std::shared_ptr<const gguf::ModelMapping> loading;

class MappedTensors : public ReservedContents {
  public:
    explicit MappedTensors(std::shared_ptr<const gguf::ModelMapping> mapping) : mapping_(std::move(mapping)) {}

    ggml_status place(ggml_tensor &tensor) override {
        if (tensor.view_src != nullptr) {
            return GGML_STATUS_SUCCESS;  // points into another tensor already
        }
        const std::byte *data = mapping_->find(tensor.name);
        if (data == nullptr) {
            return GGML_STATUS_FAILED;
        }
        tensor.data = const_cast<std::byte *>(data);
        return GGML_STATUS_SUCCESS;
    }

    void read(const ggml_tensor &tensor, void *data, size_t offset, size_t size) const override {
        std::memcpy(data, static_cast<const std::byte *>(tensor.data) + offset, size);
    }

  private:
    std::shared_ptr<const gguf::ModelMapping> mapping_;
};

const char *type_name(ggml_backend_buffer_type_t) { return "bmoe page cache"; }

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    return loading != nullptr ? make_reserved_buffer(type, size, std::make_unique<MappedTensors>(loading)) : nullptr;
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
