#include "backend/ggml_device.h"

#include <cstring>
#include <mutex>
#include <string_view>

#include "backend/expert_buffer.h"
#include "backend/expert_matmul.h"
#include "backend/expert_store.h"
#include "backend/graph_tensors.h"
#include "backend/split_executor.h"
#include "base/error.h"
#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

namespace bmoe::backend {

namespace {

thread_local ExpertStore *loading_store = nullptr;
thread_local ggml_threadpool *context_pool = nullptr;
thread_local ExpertStore *context_store = nullptr;

ggml_backend_reg registry;
ggml_backend_device device;

// --- backend: one per llama context ---

ggml_guid_t backend_guid() {
    static ggml_guid guid = {0x62, 0x6d, 0x6f, 0x65, 0x2d, 0x65, 0x78, 0x70,
                             0x65, 0x72, 0x74, 0x73, 0x2d, 0x30, 0x30, 0x31};
    return &guid;
}

SplitExecutor &executor(ggml_backend_t backend) { return *static_cast<SplitExecutor *>(backend->context); }

const char *device_name(ggml_backend_dev_t) { return "bmoe"; }

const char *backend_name(ggml_backend_t) { return "bmoe"; }

void free_backend(ggml_backend_t backend) {
    delete &executor(backend);
    delete backend;
}

ggml_status compute_graph(ggml_backend_t backend, ggml_cgraph *graph) { return executor(backend).compute(graph); }

ggml_backend_t init_backend(ggml_backend_dev_t dev, const char *) {
    auto *split_executor = new SplitExecutor;
    split_executor->set_threadpool(context_pool);
    auto *backend = new ggml_backend{};
    backend->guid = backend_guid();
    backend->iface.get_name = backend_name;
    backend->iface.free = free_backend;
    backend->iface.graph_compute = compute_graph;
    backend->device = dev;
    backend->context = split_executor;
    return backend;
}

void set_backend_threads(ggml_backend_t backend, int n_threads) { executor(backend).set_threads(n_threads); }

void set_backend_abort(ggml_backend_t backend, ggml_abort_callback callback, void *data) {
    executor(backend).set_abort_callback(callback, data);
}

// --- device ---

// Operators that may lie between an expert product and the next, or after the last. Computed by the CPU backend in our split,
// so that a layer is one split.
bool is_follow_up(const ggml_tensor *op) {
    switch (op->op) {
        case GGML_OP_GLU:
        case GGML_OP_UNARY:
        case GGML_OP_ADD_ID:
        case GGML_OP_MUL:
        case GGML_OP_CLAMP:
        case GGML_OP_SCALE:
        case GGML_OP_SQR:
        case GGML_OP_VIEW:
        case GGML_OP_RESHAPE:
            return true;
        default:
            return false;
    }
}

// By its buffer, which has no bank behind it where llama.cpp only simulates the allocation of a model. While loading, every
// candidate is shown in an expert buffer: there the name decides.
bool is_expert_tensor(const ggml_tensor *tensor) {
    return loading_store == nullptr && tensor->buffer != nullptr && tensor->buffer->buft == expert_buffer_type();
}

bool multiplies_bank(const ggml_tensor *op) {
    if (op->op != GGML_OP_MUL_MAT_ID || op->src[0] == nullptr || op->src[1]->type != GGML_TYPE_F32 ||
        !can_multiply(op->src[0]->type)) {
        return false;
    }
    // While loading, llama.cpp asks with a tensor that is not placed yet.
    return is_expert_tensor(op->src[0]) ||
           (loading_store != nullptr && loading_store->bank(op->src[0]->name) != nullptr);
}

bool comes_from_experts(const ggml_tensor *op, int depth) {
    constexpr int kDepth = 8;
    if (op == nullptr || depth > kDepth) {
        return false;
    }
    if (op->op == GGML_OP_MUL_MAT_ID) {
        return multiplies_bank(op);
    }
    return is_follow_up(op) && (comes_from_experts(op->src[0], depth + 1) || comes_from_experts(op->src[1], depth + 1));
}

// A factor for each expert (NVFP4 models, Gemma 4), gathered by the routing: llama.cpp puts these operators between the product
// and the multiplication by the factors. Computed by the CPU backend in our split too.
bool gathers_expert_factors(const ggml_tensor *op) {
    constexpr std::string_view kFactors = "_exps.scale";
    const ggml_tensor *repeated = op->op == GGML_OP_GET_ROWS ? op->src[0] : op;
    if (loading_store != nullptr || repeated->op != GGML_OP_REPEAT) {
        return false;
    }
    const std::string_view name = storage(repeated->src[0])->name;
    return name.size() > kFactors.size() && name.substr(name.size() - kFactors.size()) == kFactors;
}

// The tensors themselves are nodes too, without an operation.
bool is_bank(const ggml_tensor *tensor) { return tensor->op == GGML_OP_NONE && is_expert_tensor(tensor); }

// llama.cpp asks about every weight with the operator it is for, and would then call a kernel that does not exist.
void refuse_unmultipliable_weight(const ggml_tensor *op) {
    const bool multiplies = op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID;
    if (multiplies && ggml_get_type_traits_cpu(op->src[0]->type)->vec_dot == nullptr) {
        loading_store->report_error(
            cat("tensor ", op->src[0]->name, " has the type ", ggml_type_name(op->src[0]->type),
                ", by which nothing can be multiplied: the file is damaged, or made by a faulty "
                "converter"));
    }
}

bool supports_op(ggml_backend_dev_t, const ggml_tensor *op) {
    if (loading_store != nullptr) {
        refuse_unmultipliable_weight(op);
    }
    if (context_store != nullptr) {
        // The scheduler asks us first about everything that computes with a weight.
        context_store->look_at_node(op);
    }
    return is_bank(op) || comes_from_experts(op, 0) || gathers_expert_factors(op);
}

bool supports_buffer_type(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return type == expert_buffer_type() || ggml_backend_buft_is_host(type);
}

// Activations live in the CPU's buffers, so that they pass between its splits and ours without copies; the expert buffer
// type is for weights.
ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t) {
    return loading_store != nullptr ? expert_buffer_type() : ggml_backend_cpu_buffer_type();
}

const char *device_description(ggml_backend_dev_t) { return "routed experts streamed from storage"; }

void device_memory(ggml_backend_dev_t, size_t *free, size_t *total) {
    *free = 0;
    *total = 0;
}

enum ggml_backend_dev_type device_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }

void device_props(ggml_backend_dev_t dev, ggml_backend_dev_props *props) {
    std::memset(props, 0, sizeof(*props));
    props->name = device_name(dev);
    props->description = device_description(dev);
    props->type = device_type(dev);
}

// --- registry ---

const char *registry_name(ggml_backend_reg_t) { return "bmoe"; }

size_t registry_devices(ggml_backend_reg_t) { return 1; }

ggml_backend_dev_t registry_device(ggml_backend_reg_t, size_t) { return &device; }

void *registry_function(ggml_backend_reg_t, const char *name) {
    const std::string_view wanted = name;
    if (wanted == "ggml_backend_set_n_threads") {
        return reinterpret_cast<void *>(set_backend_threads);
    }
    if (wanted == "ggml_backend_set_abort_callback") {
        return reinterpret_cast<void *>(set_backend_abort);
    }
    return nullptr;
}

void register_device() {
    static std::once_flag once;
    std::call_once(once, [] {
        registry.api_version = GGML_BACKEND_API_VERSION;
        registry.iface.get_name = registry_name;
        registry.iface.get_device_count = registry_devices;
        registry.iface.get_device = registry_device;
        registry.iface.get_proc_address = registry_function;
        device.reg = &registry;
        device.iface.get_name = device_name;
        device.iface.get_description = device_description;
        device.iface.get_memory = device_memory;
        device.iface.get_type = device_type;
        device.iface.get_props = device_props;
        device.iface.init_backend = init_backend;
        device.iface.get_buffer_type = device_buffer_type;
        device.iface.supports_op = supports_op;
        device.iface.supports_buft = supports_buffer_type;
        ggml_backend_register(&registry);
    });
}

}  // namespace

LoadScope::LoadScope(ExpertStore &store) {
    register_device();
    loading_store = &store;
}

LoadScope::~LoadScope() { loading_store = nullptr; }

ContextScope::ContextScope(ggml_threadpool *pool, ExpertStore *store) {
    context_pool = pool;
    context_store = store;
}

ContextScope::~ContextScope() {
    context_pool = nullptr;
    context_store = nullptr;
}

ExpertStore *store_being_loaded() { return loading_store; }

ggml_backend_dev_t expert_device() { return &device; }

}  // namespace bmoe::backend
