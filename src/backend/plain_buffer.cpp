#include "backend/plain_buffer.h"

#include "ggml-backend-impl.h"

namespace bmoe::backend {

ggml_backend_buffer_type_t plain_buffer_type() {
    static ggml_backend_buffer_type type = *ggml_backend_cpu_buffer_type();
    return &type;
}

}  // namespace bmoe::backend
