#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <thread>

#include "backend/disk_probe.h"
#include "backend/ggml_device.h"
#include "backend/kernels/row_kernel.h"
#include "backend/route_replay.h"
#include "base/error.h"
#include "cache/ubatch_choice.h"
#include "common.h"
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

// Not more than this process may run on at once: in a container the machine has more.
int default_threads() {
    const auto allowed = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return std::clamp(common_cpu_get_num_math(), 1, allowed);
}

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

void Engine::FreePool::operator()(ggml_threadpool *pool) const { ggml_threadpool_free(pool); }

Engine::Engine(const Options &options) {
    capture_llama_log();
    take_llama_errors();
    threads_ = options.threads > 0 ? options.threads : default_threads();
    const cache::MemoryLimits limits = cache::read_memory_limits();
    file_ = gguf::ModelFile::open(options.model, options.stream ? options.direct_io : io::DirectIo::kOff);
    const bool streams = options.stream && !file_->expert_layers().empty();
    std::optional<cache::RouteTrace> trace;
    if (!options.route_replay.empty()) {
        if (!streams) {
            throw Error(cat("route trace ", options.route_replay, ": only streamed experts can be replayed; ",
                            options.stream ? "the model has none" : "add --moe-stream"));
        }
        trace = cache::read_route_trace(options.route_replay);
    }
    override_expert_count(options, trace ? &*trace : nullptr);
    ggml_threadpool_params pool_params = ggml_threadpool_params_default(threads_);
    pool_.reset(ggml_threadpool_new(&pool_params));
    if (streams) {
        store_ = std::make_unique<backend::ExpertStore>(
            *file_, backend::StoreOptions{.io_threads = options.io_threads,
                                          .io_engine = options.io_engine,
                                          .overlap = options.overlap,
                                          .lookahead = options.overlap ? options.lookahead : 0});
        note(options, file_->io_note());
        note(options, store_->pool().note());
        if (trace) {
            replay_routes(options, *trace);
        }
        plan_memory(options, limits);
        store_->set_cache(report_.plan.slots, options.policy);
        report_.disk_bandwidth = backend::measure_bandwidth(*store_);
        if (options.warm_start) {
            warm_start_ = WarmStart::begin(options, report_.plan, *store_);
        }
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
        report_.mode_note =
            cat(file_->expert_layers().empty() ? "the model has no experts" : "not streaming",
                ": running as plain llama.cpp with ", options.resident ? "the whole model in memory" : "mmap");
    }
    report_.load_seconds = seconds_since(start);
    note_kernels(options);
    if (report_.n_ubatch == 0) {
        report_.n_ubatch = options.n_ubatch != 0 ? options.n_ubatch : cache::kUsualUbatch;
    }
    context_ = make_context(options, model_.get(), report_.n_ubatch);
}

Engine::~Engine() {
    if (warm_start_ != nullptr && has_decoded_) {
        warm_start_->save(*store_);
    }
    context_.reset();
    model_.reset();
}

void Engine::note(const Options &options, const std::string &line) const {
    if (options.on_note && !line.empty()) {
        options.on_note(line);
    }
}

// Once per type of streamed weights whose kernel is not used although it could be.
void Engine::note_kernels(const Options &options) const {
    std::set<uint32_t> types;
    for (const gguf::ExpertLayer &layer : file_->expert_layers()) {
        for (const gguf::Bank &bank : layer.banks) {
            types.insert(bank.type);
        }
    }
    for (const uint32_t type : types) {
        note(options, store_ != nullptr ? backend::row_kernel(static_cast<ggml_type>(type)).note : std::string());
    }
}

// To the number that the caller gave, else to that of the trace; a trace of another shape is refused later.
void Engine::override_expert_count(const Options &options, const cache::RouteTrace *trace) {
    uint32_t count = options.n_expert_used;
    if (count == 0 && trace != nullptr && trace->n_expert == file_->expert_layers().front().n_expert) {
        count = trace->top_k;
    }
    const uint32_t own = file_->expert_used_count();
    if (count == 0 || count == own) {
        return;
    }
    file_->override_expert_used_count(count);
    llama_model_kv_override entry{};
    entry.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
    std::snprintf(entry.key, sizeof(entry.key), "%s", file_->expert_used_key().c_str());
    entry.val_i64 = count;
    overrides_ = {entry, llama_model_kv_override{}};
    note(options, cat("a token uses ", count, " experts of a layer",
                      options.n_expert_used != 0 ? "" : ", as many as in the route trace", "; the model was made for ",
                      own, ": the output is ", count < own ? "lossy" : "another"));
}

void Engine::replay_routes(const Options &options, const cache::RouteTrace &trace) {
    auto replay = std::make_unique<backend::RouteReplay>(trace, store_->geometry(), options.route_replay);
    report_.route_replay = cat("route-replay: ", options.route_replay, ", ", replay->tokens(),
                               " tokens, routing is recorded, text is meaningless");
    store_->set_route_replay(std::move(replay));
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
    params.kv_overrides = overrides_.empty() ? nullptr : overrides_.data();
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
    params.load_mode = options.resident ? LLAMA_LOAD_MODE_NONE : LLAMA_LOAD_MODE_MMAP;
    params.kv_overrides = overrides_.empty() ? nullptr : overrides_.data();
    params.use_extra_bufts = options.repack;
    params.progress_callback = forward_progress;
    params.progress_callback_user_data = const_cast<Options *>(&options);
    model_.reset(llama_model_load_from_file(file_->shards().front()->path().c_str(), params));
    if (model_ == nullptr) {
        throw Error(cat(options.model, ": cannot load the model: ", take_llama_errors()));
    }
    report_.o_direct = false;
}

Engine::ContextPtr Engine::make_context(const Options &options, llama_model *model, uint32_t n_ubatch) const {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = options.n_ctx;
    params.n_batch = n_ubatch;
    params.n_ubatch = n_ubatch;
    params.n_outputs_max = options.all_logits ? n_ubatch : 1;
    params.n_threads = threads_;
    params.n_threads_batch = threads_;
    params.no_perf = true;
    params.type_k = kv_type(options.kv_type_k);
    params.type_v = kv_type(options.kv_type_v);
    params.flash_attn_type = options.flash_attention == FlashAttention::kOn    ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                             : options.flash_attention == FlashAttention::kOff ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                                                               : LLAMA_FLASH_ATTN_TYPE_AUTO;
    const backend::ContextScope scope(pool_.get(), store_.get());
    ContextPtr context(llama_init_from_model(model, params));
    if (context == nullptr) {
        throw Error(cat(options.model, ": cannot make a context of ", options.n_ctx, " tokens: ", take_llama_errors()));
    }
    llama_attach_threadpool(context.get(), pool_.get(), pool_.get());
    return context;
}

// What everything but the experts will take, from llama.cpp's own simulation of making the context.
cache::MemoryItems Engine::measure_memory(const Options &options, llama_model *model, uint32_t n_ubatch) const {
    const ContextPtr context = make_context(options, model, n_ubatch);
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

// One that exceeds `limit` has no slots, or as many as the caller wants.
cache::MemoryPlan Engine::make_plan(const Options &options, llama_model *model, uint32_t n_ubatch,
                                    uint64_t limit) const {
    const cache::MemoryPlan plan =
        cache::plan_fixed(measure_memory(options, model, n_ubatch), options.cache_bytes.value_or(0));
    return options.cache_bytes.has_value() || plan.total() > limit
               ? plan
               : cache::plan_auto(plan.items, store_->geometry(), limit);
}

void Engine::plan_memory(const Options &options, const cache::MemoryLimits &limits) {
    const ModelPtr model = load_from_stream(options, true);
    const uint64_t limit = limits.effective();
    const auto plan_of = [&](uint32_t n_ubatch) { return make_plan(options, model.get(), n_ubatch, limit); };
    const cache::UbatchChoice choice =
        options.n_ubatch != 0 ? cache::UbatchChoice{options.n_ubatch, plan_of(options.n_ubatch)}
                              : cache::choose_ubatch(plan_of, limit, options.n_ctx, options.cache_bytes.has_value());
    report_.n_ubatch = choice.n_ubatch;
    report_.plan = choice.plan;
    if (report_.plan.total() > limit && options.cache_bytes.has_value()) {
        throw Error(cat(options.model, ": needs ", report_.plan.describe(), ", but there are ", limits.describe(),
                        "; give a smaller --cache-mb, a smaller -c, or more memory"));
    }
    if (!options.cache_bytes.has_value()) {
        report_.plan = cache::plan_auto(report_.plan.items, store_->geometry(), limit);  // throws if it does not fit
    }
    if (!options.cache_bytes.has_value() && report_.plan.slots == 0) {
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
            has_decoded_ = true;
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
