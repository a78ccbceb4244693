#include "backend/expert_buffer.h"

#include <cstring>
#include <memory>

#include "backend/expert_store.h"
#include "backend/ggml_device.h"
#include "backend/reserved_buffer.h"
#include "base/error.h"
#include "ggml-backend-impl.h"
#include "io/bulk_reader.h"

namespace bmoe::backend {

namespace {

// A kernel that took an expert tensor for resident would stop at the closed addresses, and not compute with zeros.
class Banks : public ReservedContents {
  public:
    explicit Banks(ExpertStore *store) : store_(store) {}

    ggml_status place(ggml_tensor &tensor) override {
        BankRef *bank = store_ != nullptr ? store_->bank(tensor.name) : nullptr;
        if (bank == nullptr) {
            return GGML_STATUS_FAILED;
        }
        bank->placed = true;
        tensor.extra = bank;
        return GGML_STATUS_SUCCESS;
    }

    // For the rare reader of a whole expert tensor, e.g. an operator that is not ours: from the file.
    void read(const ggml_tensor &tensor, void *data, size_t offset, size_t size) const override {
        const BankRef *bank = placed_bank(&tensor);
        const auto &model = bank->store->model();
        io::BulkReader reader(1);
        const io::ReadStatus status =
            reader.read(*model.shards()[bank->bank->shard], bank->bank->offset + offset, size, data);
        if (!status.ok()) {
            std::memset(data, 0, size);
            bank->store->report_error(cat("tensor ", bank->bank->tensor, ": ", status.error));
        }
    }

  private:
    ExpertStore *store_;
};

const char *type_name(ggml_backend_buffer_type_t) { return "bmoe experts"; }

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    return make_reserved_buffer(type, size, std::make_unique<Banks>(store_being_loaded()));
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
