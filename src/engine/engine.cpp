#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "backend/disk_probe.h"
#include "backend/kernels/row_kernel.h"
#include "backend/route_replay.h"
#include "base/error.h"
#include "base/mib.h"
#include "common.h"
#include "engine/context.h"
#include "engine/llama_log.h"
#include "engine/memory_planner.h"
#include "engine/run_mode.h"
#include "engine/thread_count.h"
#include "telemetry/process_usage.h"

namespace bmoe::engine {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Serial reads are not ahead of anything, and a router knows nothing of a recorded routing.
bool looks_ahead(const Options &options) { return options.overlap && options.route_replay.empty(); }

bool is_cancelled(void *flag) { return static_cast<std::atomic<bool> *>(flag)->load(std::memory_order_relaxed); }

std::vector<llama_token> tokens_of(const llama_vocab *vocab, const std::string &text, bool with_bos) {
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

}  // namespace

Engine::Engine(const Options &options) {
    capture_llama_log();
    take_llama_errors();
    threads_ = options.threads > 0 ? options.threads : default_threads();
    cache::MemoryLimits limits = cache::read_memory_limits();
    limits.allowed = options.ram_bytes;
    const int64_t held = telemetry::rss_bytes();
    file_ = gguf::ModelFile::open(options.model, options.stream ? options.direct_io : io::DirectIo::kOff);
    std::optional<cache::RouteTrace> trace;
    if (!options.route_replay.empty()) {
        if (!options.stream || file_->expert_layers().empty()) {
            throw Error(cat("route trace ", options.route_replay, ": only streamed experts can be replayed; ",
                            options.stream ? "the model has none" : "leave out --moe-stream off"));
        }
        trace = cache::read_route_trace(options.route_replay);
    }
    override_expert_count(options, trace ? &*trace : nullptr);
    ggml_threadpool_params pool_params = ggml_threadpool_params_default(threads_);
    pool_.reset(ggml_threadpool_new(&pool_params));
    const ContextSetting setting{.file = file_.get(),
                                 .pool = pool_.get(),
                                 .threads = threads_,
                                 .store = nullptr,
                                 .held_before = static_cast<uint64_t>(std::max<int64_t>(held, 0))};
    const RunMode mode = choose_run_mode(options, overrides_, setting, limits);
    if (mode.streams) {
        open_streamed(options, limits, setting, mode, trace ? &*trace : nullptr);
        report_.mode_note += mode.why.empty() ? "" : ": " + mode.why;
    } else {
        options.note(options.lossy.any() ? "nothing is streamed: no expert is left out or replaced" : "");
        open_plain(options, mode);
    }
    note_kernels(options);
    context_ = make_context(options, model_.get(), pool_.get(), threads_, store_.get(), report_.n_ubatch);
    llama_set_abort_callback(context_.get(), is_cancelled, &cancelled_);
}

void Engine::open_plain(const Options &options, const RunMode &mode) {
    Options plain = options;
    plain.resident = mode.resident;
    const auto start = std::chrono::steady_clock::now();
    model_ = load_plain(plain, *file_, overrides_, LoadMode::kRead);
    report_.load_seconds = seconds_since(start);
    report_.mode_note = cat(mode.why, mode.why.empty() ? "" : ": ", "running as plain llama.cpp with ",
                            mode.resident ? "the whole model in memory" : "mmap");
    report_.plan = mode.planned.plan;
    report_.n_ubatch = mode.planned.n_ubatch;
    report_.dense_mapped = !mode.resident;
}

void Engine::open_streamed(const Options &options, const cache::MemoryLimits &limits, const ContextSetting &setting,
                           const RunMode &mode, const cache::RouteTrace *trace) {
    backend::StoreOptions store_options{.io_threads = options.io_threads,
                                        .io_engine = options.io_engine,
                                        .overlap = options.overlap,
                                        .lookahead = looks_ahead(options) ? options.lookahead : 0,
                                        .lossy = options.lossy};
    store_options.lossy.on_note = options.on_note;
    store_ = std::make_unique<backend::ExpertStore>(*file_, store_options);
    options.note(file_->io_note());
    options.note(store_->pool().note());
    mark_lossy(options, options.lossy.describe());
    if (trace != nullptr) {
        replay_routes(options, *trace);
    }
    plan_memory(options, limits, setting, mode.least_resident);
    store_->set_cache(report_.plan.slots, options.policy);
    options.note(
        options.lossy.any() && report_.plan.slots == 0
            ? "there is no expert cache, so no expert is in memory when it is chosen: none is replaced, and all that "
              "weigh too little are dropped"
            : "");
    report_.disk_bandwidth = backend::measure_bandwidth(*store_);
    store_->set_route_observer(options.route_observer);
    store_->pool().set_observer(options.read_observer);
    if (options.warm_start) {
        warm_start_ = WarmStart::begin(options, *store_);
        report_.profile = warm_start_ != nullptr ? warm_start_->path() : "";
    }
    const auto start = std::chrono::steady_clock::now();
    LoadedModel loaded = load_streamed(options, *file_, *store_, overrides_, LoadMode::kRead);
    model_ = std::move(loaded.model);
    report_.load_seconds = seconds_since(start);
    report_.streaming = true;
    report_.dense_bytes = loaded.dense_bytes_read + loaded.dense_bytes_mapped;
    report_.expert_bytes = loaded.expert_bytes;
    report_.o_direct = file_->is_direct();
    report_.dense_mapped = loaded.dense_bytes_mapped > 0;
    report_.mode_note = cat("streaming ", mib_up(report_.expert_bytes), " MiB of routed experts, ",
                            report_.dense_mapped ? cat(mib_up(loaded.dense_bytes_mapped), " MiB in the page cache")
                                                 : cat(mib_up(loaded.dense_bytes_read), " MiB in memory"));
}

void Engine::plan_memory(const Options &options, const cache::MemoryLimits &limits, ContextSetting setting,
                         std::optional<uint64_t> least_resident) {
    const LoadedModel measured = load_streamed(options, *file_, *store_, overrides_, LoadMode::kMeasure);
    setting.store = store_.get();
    const cache::UbatchChoice choice =
        engine::plan_memory(options, measured.model.get(), setting, limits, least_resident);
    report_.n_ubatch = choice.n_ubatch;
    report_.plan = choice.plan;
}

Engine::~Engine() {
    if (warm_start_ != nullptr && has_decoded_) {
        warm_start_->save(*store_);
    }
    tokenizing_.finish();
    context_.reset();
    model_.reset();
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
        options.note(store_ != nullptr ? backend::row_kernel(static_cast<ggml_type>(type)).note : std::string());
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
    mark_lossy(options, cat("a token uses ", count, " experts of a layer",
                            options.n_expert_used != 0 ? "" : ", as many as in the route trace",
                            "; the model was made for ", own));
}

// `what`: nothing if empty.
void Engine::mark_lossy(const Options &options, const std::string &what) {
    if (!what.empty()) {
        options.note("the output is lossy: " + what);
        report_.lossy += (report_.lossy.empty() ? "" : "; ") + what;
    }
}

void Engine::replay_routes(const Options &options, const cache::RouteTrace &trace) {
    auto replay = std::make_unique<backend::RouteReplay>(trace, store_->geometry(), options.route_replay);
    report_.route_replay =
        cat("route-replay: ", options.route_replay, ", ",
            replay->prompt_tokens() > 0 ? cat("after a prompt of ", replay->prompt_tokens(), ", ") : std::string(),
            replay->decoded_tokens(), " tokens, routing is recorded, text is meaningless");
    store_->set_route_replay(std::move(replay));
}

std::vector<llama_token> Engine::tokenize(std::string text, bool with_bos) {
    const llama_vocab *vocab = llama_model_get_vocab(model_.get());
    std::optional<std::vector<llama_token>> tokens;
    try {
        tokens = tokenizing_.run([=, text = std::move(text)] { return tokens_of(vocab, text, with_bos); },
                                 [this] { return take_cancel(); });
    } catch (const std::system_error &error) {
        throw Error(cat("cannot start a thread to cut the prompt into tokens: ", error.what()));
    }
    if (!tokens) {
        throw Cancelled("cancelled");
    }
    return *std::move(tokens);
}

std::string Engine::piece(llama_token token, bool with_control) const {
    const llama_vocab *vocab = llama_model_get_vocab(model_.get());
    std::string text(64, '\0');
    int32_t n = llama_token_to_piece(vocab, token, text.data(), static_cast<int32_t>(text.size()), 0, with_control);
    if (n < 0) {
        text.resize(static_cast<size_t>(-n));
        n = llama_token_to_piece(vocab, token, text.data(), -n, 0, with_control);
    }
    text.resize(static_cast<size_t>(std::max(n, 0)));
    return text;
}

void Engine::decode(std::span<const llama_token> tokens, const std::function<void(size_t)> &on_batch) {
    const size_t batch = llama_n_batch(context_.get());
    for (size_t at = 0; at < tokens.size(); at += batch) {
        const size_t n = std::min(batch, tokens.size() - at);
        const uint32_t held = held_tokens();
        // llama_batch_get_one takes a mutable pointer but only reads.
        auto *first = const_cast<llama_token *>(tokens.data() + at);
        const int status = llama_decode(context_.get(), llama_batch_get_one(first, static_cast<int32_t>(n)));
        if (status == 0) {
            has_decoded_ = true;
            if (on_batch) {
                on_batch(at + n);
            }
            continue;
        }
        keep_first(held);  // llama.cpp leaves a recurrent state that is half advanced
        const std::string log = take_llama_errors();
        const bool cancelled = take_cancel();
        if (store_ != nullptr) {
            const auto error = store_->take_error();
            store_->give_up_visit();
            if (error) {
                throw Error(*error);
            }
        }
        if (cancelled) {
            throw Cancelled("cancelled");
        }
        if (status == 1) {
            throw Error(cat("the context of ", llama_n_ctx(context_.get()), " tokens is full; give a larger -c"));
        }
        throw Error(cat("llama.cpp could not decode (status ", status, "): ", log));
    }
}

uint32_t Engine::held_tokens() const {
    return static_cast<uint32_t>(llama_memory_seq_pos_max(llama_get_memory(context_.get()), 0) + 1);
}

uint32_t Engine::keep_first(uint32_t n) {
    const uint32_t held = held_tokens();
    if (n >= held) {
        return held;
    }
    const llama_memory_t memory = llama_get_memory(context_.get());
    const auto end = static_cast<llama_pos>(n);
    // A window of attention that has moved on has lost what the token after `n` looks at.
    const llama_pos window = std::max(0, end - llama_model_n_swa(model_.get()));
    const bool lost = llama_model_n_swa(model_.get()) > 0 && llama_memory_seq_pos_min(memory, 0) > window;
    if (lost || !llama_memory_seq_rm(memory, 0, end, -1)) {
        reset();
    }
    return held_tokens();
}

void Engine::reset() { llama_memory_clear(llama_get_memory(context_.get()), true); }

}  // namespace bmoe::engine
