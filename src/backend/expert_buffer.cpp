#include "backend/expert_buffer.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/expert_store.h"
#include "backend/ggml_device.h"
#include "base/error.h"
#include "ggml-backend-impl.h"
#include "io/bulk_reader.h"

namespace bmoe::backend {

namespace {

// Reserved addresses that trap when touched: a kernel that took an expert tensor for resident would stop there and not
// compute with zeros.
struct Reservation {
    void *base = nullptr;
    size_t size = 0;
    ExpertStore *store = nullptr;
};

Reservation &reservation(ggml_backend_buffer_t buffer) { return *static_cast<Reservation *>(buffer->context); }

void free_buffer(ggml_backend_buffer_t buffer) {
    Reservation &reserved = reservation(buffer);
    munmap(reserved.base, reserved.size);
    delete &reserved;
}

void *buffer_base(ggml_backend_buffer_t buffer) { return reservation(buffer).base; }

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor *tensor) {
    ExpertStore *store = reservation(buffer).store;
    BankRef *bank = store != nullptr ? store->bank(tensor->name) : nullptr;
    if (bank == nullptr) {
        return GGML_STATUS_FAILED;
    }
    bank->placed = true;
    tensor->extra = bank;
    return GGML_STATUS_SUCCESS;
}

// Nothing can be stored; nothing tries to, once a model is loaded.
void set_tensor(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}

void memset_tensor(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}

// For the rare reader of a whole expert tensor, e.g. an operator that is not ours: from the file.
void get_tensor(ggml_backend_buffer_t, const ggml_tensor *tensor, void *data, size_t offset, size_t size) {
    const BankRef *bank = placed_bank(tensor);
    const auto &model = bank->store->model();
    io::BulkReader reader(1);
    const io::ReadStatus status =
        reader.read(*model.shards()[bank->bank->shard], bank->bank->offset + offset, size, data);
    if (!status.ok()) {
        std::memset(data, 0, size);
        bank->store->report_error(cat("tensor ", bank->bank->tensor, ": ", status.error));
    }
}

void clear_buffer(ggml_backend_buffer_t, uint8_t) {}

const char *type_name(ggml_backend_buffer_type_t) { return "bmoe experts"; }

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    auto reserved = std::make_unique<Reservation>();
    reserved->size = size > 0 ? size : 1;
    reserved->store = store_being_loaded();
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

size_t alignment(ggml_backend_buffer_type_t) { return 64; }

// Not host memory in ggml's sense: an operator that is not ours gets a copy through get_tensor instead of the addresses.
// Except while loading, where llama.cpp reads straight to host addresses (and the virtual GGUF passes the range over), but
// first fills a vector of the tensor's size with zeros for others: 17 GB of page faults on an 18 GB model.
bool is_host(ggml_backend_buffer_type_t) { return store_being_loaded() != nullptr; }

}  // namespace

ggml_backend_buffer_type_t expert_buffer_type() {
    static ggml_backend_buffer_type type = {
        {type_name, alloc_buffer, alignment, nullptr, nullptr, is_host}, expert_device(), nullptr};
    return &type;
}

BankRef *placed_bank(const ggml_tensor *tensor) {
    return tensor->buffer != nullptr && tensor->buffer->buft == expert_buffer_type()
               ? static_cast<BankRef *>(tensor->extra)
               : nullptr;
}

}  // namespace bmoe::backend
