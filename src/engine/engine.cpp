#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "backend/ggml_device.h"
#include "backend/kernels/row_kernel.h"
#include "base/error.h"
#include "engine/llama_log.h"
#include "ggml-cpu.h"
#include "gguf/stdio_stream.h"
#include "gguf/virtual_gguf.h"
#include "llama-ext.h"

namespace bmoe::engine {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

uint64_t mib_up(uint64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

// Program, vocabulary, graph metadata and allocator slack; the rest is itemised.
uint64_t other_bytes() { return uint64_t{96} << 20; }

bool forward_progress(float progress, void *data) {
    const auto &options = *static_cast<const Options *>(data);
    if (options.on_progress) {
        options.on_progress(progress);
    }
    return true;
}

}  // namespace

void Engine::FreePool::operator()(ggml_threadpool *pool) const { ggml_threadpool_free(pool); }

Engine::Engine(const Options &options) {
    capture_llama_log();
    take_llama_errors();
    threads_ =
        options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const cache::MemoryLimits limits = cache::read_memory_limits();
    file_ = gguf::ModelFile::open(options.model, options.stream ? options.direct_io : io::DirectIo::kOff);
    ggml_threadpool_params pool_params = ggml_threadpool_params_default(threads_);
    pool_.reset(ggml_threadpool_new(&pool_params));
    const bool streams = options.stream && !file_->expert_layers().empty();
    if (streams) {
        store_ = std::make_unique<backend::ExpertStore>(
            *file_, backend::StoreOptions{.io_threads = options.io_threads, .overlap = options.overlap});
        note(options, file_->io_note());
        for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
            note(options, backend::row_kernel(static_cast<ggml_type>(type)).note);
        }
        plan_memory(options, limits);
    }
    const auto start = std::chrono::steady_clock::now();
    if (streams) {
        model_ = load_from_stream(options, false);
        report_.streaming = true;
        report_.o_direct = file_->is_direct();
        report_.mode_note = cat("streaming ", mib_up(report_.expert_bytes), " MiB of routed experts, ",
                                mib_up(report_.dense_bytes_read), " MiB in memory");
    } else {
        load_plain(options);
        report_.mode_note = file_->expert_layers().empty()
                                ? "the model has no experts: running as plain llama.cpp with mmap"
                                : "not streaming: running as plain llama.cpp with mmap";
    }
    report_.load_seconds = seconds_since(start);
    context_ = make_context(options, model_.get());
    if (streams) {
        store_->set_cache(report_.plan.slots, options.policy);
    }
}

Engine::~Engine() {
    context_.reset();
    model_.reset();
}

void Engine::note(const Options &options, const std::string &line) const {
    if (options.on_note && !line.empty()) {
        options.on_note(line);
    }
}

Engine::ModelPtr Engine::load_from_stream(const Options &options, bool measure_only) {
    io::BulkReader reader(options.io_threads);
    backend::ExpertStore &store = *store_;
    std::set<const gguf::Bank *> resident;  // llama.cpp reads them: not placed in the expert buffer
    gguf::VirtualGguf source(*file_, reader, [&](const gguf::Tensor &tensor, const void *) {
        const backend::BankRef *bank = store.bank(tensor.info.name);
        if (bank != nullptr && !bank->placed) {
            resident.insert(bank->bank);
        }
        return bank != nullptr && bank->placed;
    });
    const gguf::FilePtr stream = gguf::open_stream(source);

    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.use_extra_bufts = options.repack;
    params.no_alloc = measure_only;
    if (!measure_only) {
        params.progress_callback = forward_progress;
        params.progress_callback_user_data = const_cast<Options *>(&options);
    }
    ModelPtr model;
    {
        const backend::LoadScope scope(store);
        model.reset(llama_model_load_from_file_ptr(stream.get(), params));
    }
    const std::optional<std::string> refused = store.take_error();
    if (model == nullptr || !source.error().empty() || refused.has_value()) {
        const std::string reason = refused.has_value()       ? *refused
                                   : !source.error().empty() ? source.error()
                                                             : take_llama_errors();
        throw Error(cat(options.model, ": cannot load the model: ", reason));
    }
    if (measure_only) {
        return model;
    }
    report_.dense_bytes_read = source.served_bytes();
    report_.expert_bytes = source.skipped_bytes();
    uint64_t resident_bytes = 0;
    for (const gguf::Bank *bank : resident) {
        resident_bytes += bank->bytes_per_expert * bank->n_expert;
    }
    if (!resident.empty()) {
        note(options, cat(resident.size(), " expert tensors (", mib_up(resident_bytes), " MiB, among them ",
                          (*resident.begin())->tensor, ") cannot be streamed and are held in memory"));
    }
    return model;
}

void Engine::load_plain(const Options &options) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.load_mode = LLAMA_LOAD_MODE_MMAP;
    params.use_extra_bufts = options.repack;
    params.progress_callback = forward_progress;
    params.progress_callback_user_data = const_cast<Options *>(&options);
    model_.reset(llama_model_load_from_file(file_->shards().front()->path().c_str(), params));
    if (model_ == nullptr) {
        throw Error(cat(options.model, ": cannot load the model: ", take_llama_errors()));
    }
    report_.o_direct = false;
}

Engine::ContextPtr Engine::make_context(const Options &options, llama_model *model) const {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = options.n_ctx;
    params.n_batch = options.n_ubatch;
    params.n_ubatch = options.n_ubatch;
    params.n_threads = threads_;
    params.n_threads_batch = threads_;
    params.no_perf = true;
    const backend::ContextScope scope(pool_.get());
    ContextPtr context(llama_init_from_model(model, params));
    if (context == nullptr) {
        throw Error(cat(options.model, ": cannot make a context of ", options.n_ctx, " tokens: ", take_llama_errors()));
    }
    llama_attach_threadpool(context.get(), pool_.get(), pool_.get());
    return context;
}

// What everything but the experts will take, from llama.cpp's own simulation of loading the model and making the context.
cache::MemoryItems Engine::measure_memory(const Options &options) {
    const ModelPtr model = load_from_stream(options, true);
    const ContextPtr context = make_context(options, model.get());
    cache::MemoryItems items;
    for (const auto &[type, data] : llama_get_memory_breakdown(context.get())) {
        items.dense += type == backend::expert_buffer_type() ? 0 : data.model;
        items.kv += data.context;
        items.compute += data.compute;
    }
    items.staging = store_->staging_bytes();
    items.other = other_bytes();
    return items;
}

void Engine::plan_memory(const Options &options, const cache::MemoryLimits &limits) {
    const cache::MemoryItems items = measure_memory(options);
    if (options.cache_bytes.has_value()) {
        report_.plan = cache::plan_fixed(items, *options.cache_bytes);
        if (report_.plan.total() > limits.effective()) {
            throw Error(cat(options.model, ": needs ", report_.plan.describe(), ", but there are ", limits.describe(),
                            "; give a smaller --cache-mb, a smaller -c, or more memory"));
        }
        return;
    }
    report_.plan = cache::plan_auto(items, store_->geometry(), limits.effective());
    if (report_.plan.slots == 0) {
        note(options, cat("no expert cache: ", limits.describe(), "; everything else and a reserve need ",
                          report_.plan.describe()));
    }
}

std::vector<llama_token> Engine::tokenize(const std::string &text, bool with_bos) const {
    const llama_vocab *vocab = llama_model_get_vocab(model_.get());
    const auto length = static_cast<int32_t>(text.size());
    std::vector<llama_token> tokens(text.size() + 8);
    int32_t n =
        llama_tokenize(vocab, text.data(), length, tokens.data(), static_cast<int32_t>(tokens.size()), with_bos, true);
    if (n < 0) {
        tokens.resize(static_cast<size_t>(-n));
        n = llama_tokenize(vocab, text.data(), length, tokens.data(), -n, with_bos, true);
    }
    tokens.resize(static_cast<size_t>(std::max(n, 0)));
    return tokens;
}

std::string Engine::piece(llama_token token) const {
    const llama_vocab *vocab = llama_model_get_vocab(model_.get());
    std::string text(64, '\0');
    int32_t n = llama_token_to_piece(vocab, token, text.data(), static_cast<int32_t>(text.size()), 0, false);
    if (n < 0) {
        text.resize(static_cast<size_t>(-n));
        n = llama_token_to_piece(vocab, token, text.data(), -n, 0, false);
    }
    text.resize(static_cast<size_t>(std::max(n, 0)));
    return text;
}

void Engine::decode(std::span<const llama_token> tokens) {
    const size_t batch = llama_n_batch(context_.get());
    for (size_t at = 0; at < tokens.size(); at += batch) {
        const size_t n = std::min(batch, tokens.size() - at);
        // llama_batch_get_one takes a mutable pointer but only reads.
        auto *first = const_cast<llama_token *>(tokens.data() + at);
        const int status = llama_decode(context_.get(), llama_batch_get_one(first, static_cast<int32_t>(n)));
        if (status == 0) {
            continue;
        }
        const std::string log = take_llama_errors();
        if (store_ != nullptr) {
            if (const auto error = store_->take_error()) {
                throw Error(*error);
            }
        }
        if (status == 1) {
            throw Error(cat("the context of ", llama_n_ctx(context_.get()), " tokens is full; give a larger -c"));
        }
        throw Error(cat("llama.cpp could not decode (status ", status, "): ", log));
    }
}

void Engine::reset() { llama_memory_clear(llama_get_memory(context_.get()), true); }

}  // namespace bmoe::engine
