#include "engine/context.h"

#include "backend/ggml_device.h"
#include "base/error.h"
#include "engine/llama_log.h"

namespace bmoe::engine {

namespace {

constexpr ggml_type kKvTypes[] = {GGML_TYPE_F16,  GGML_TYPE_F32,    GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                                  GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1};

ggml_type kv_type(const std::string &name) {
    for (const ggml_type type : kKvTypes) {
        if (name == ggml_type_name(type)) {
            return type;
        }
    }
    throw Error(cat("'", name, "' is no type for keys or values"));
}

llama_flash_attn_type flash_attention(FlashAttention wanted) {
    switch (wanted) {
        case FlashAttention::kOn:
            return LLAMA_FLASH_ATTN_TYPE_ENABLED;
        case FlashAttention::kOff:
            return LLAMA_FLASH_ATTN_TYPE_DISABLED;
        case FlashAttention::kAuto:
            break;
    }
    return LLAMA_FLASH_ATTN_TYPE_AUTO;
}

}  // namespace

const std::vector<std::string> &kv_types() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const ggml_type type : kKvTypes) {
            all.emplace_back(ggml_type_name(type));
        }
        return all;
    }();
    return names;
}

bool is_quantized_kv_type(const std::string &name) { return ggml_is_quantized(kv_type(name)); }

ContextPtr make_context(const Options &options, llama_model *model, ggml_threadpool *pool, int threads,
                        backend::ExpertStore *store, uint32_t n_ubatch) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = options.n_ctx;
    params.n_batch = n_ubatch;
    params.n_ubatch = n_ubatch;
    params.n_outputs_max = options.all_logits ? n_ubatch : 1;
    params.n_threads = threads;
    params.n_threads_batch = threads;
    params.no_perf = true;
    params.type_k = kv_type(options.kv_type_k);
    params.type_v = kv_type(options.kv_type_v);
    params.flash_attn_type = flash_attention(options.flash_attention);
    const backend::ContextScope scope(pool, store);
    ContextPtr context(llama_init_from_model(model, params));
    if (context == nullptr) {
        throw Error(cat(options.model, ": cannot make a context of ", options.n_ctx, " tokens: ", take_llama_errors()));
    }
    llama_attach_threadpool(context.get(), pool, pool);
    return context;
}

}  // namespace bmoe::engine
