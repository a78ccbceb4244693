#include "engine/generation.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/error.h"

namespace bmoe::engine {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}

// What is decoded while it lives is a prompt's.
class PromptScope {
  public:
    explicit PromptScope(backend::ExpertStore *store) : store_(store) { set(true); }
    ~PromptScope() { set(false); }
    PromptScope(const PromptScope &) = delete;
    PromptScope &operator=(const PromptScope &) = delete;

  private:
    void set(bool on) {
        if (store_ != nullptr) {
            store_->set_in_prompt(on);
        }
    }
    backend::ExpertStore *store_;
};

void decode_prompt(Engine &engine, const GenerationRequest &request, uint32_t held, GenerationStats &stats) {
    const IntervalScope scope(engine, stats.prompt);
    const PromptScope prompt_scope(engine.store());
    try {
        engine.decode(request.prompt, request.on_prompt);
    } catch (...) {
        const uint32_t now = engine.held_tokens();
        stats.prompt_tokens = now - std::min(now, held);
        throw;
    }
    stats.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
}

// `room`: tokens that can still be decoded.
void decode_steps(Engine &engine, const GenerationRequest &request, uint32_t room, GenerationStats &stats) {
    const llama_vocab *vocab = llama_model_get_vocab(engine.model());
    const SamplerPtr sampler = make_sampler(request.sampling);
    const IntervalScope scope(engine, stats.decode);
    while (stats.generated < request.max_tokens) {
        if (engine.take_cancel()) {
            throw Cancelled("cancelled");
        }
        const auto start = Clock::now();
        std::optional<IntervalMeter> meter;
        if (request.on_step) {
            meter.emplace(engine);
        }
        const llama_token token = llama_sampler_sample(sampler.get(), engine.context(), -1);
        if (request.at_end == AtEnd::kStop && llama_vocab_is_eog(vocab, token)) {
            stats.stop = StopReason::kEndOfText;
            return;
        }
        ++stats.generated;
        stats.tokens.push_back(token);
        const bool is_marker =
            std::find(request.markers.begin(), request.markers.end(), token) != request.markers.end();
        if (!request.on_text(engine.piece(token, is_marker))) {
            stats.stop = StopReason::kCaller;
            return;
        }
        if (stats.generated == request.max_tokens) {
            return;
        }
        if (room-- == 0) {
            stats.stop = StopReason::kContextFull;
            return;
        }
        engine.decode({&token, 1});
        stats.step_seconds.push_back(seconds_between(start, Clock::now()));
        if (request.on_step) {
            request.on_step({static_cast<uint32_t>(stats.step_seconds.size() - 1), token, meter->stop()});
        }
    }
}

uint64_t needed_bytes(const backend::StoreCounters &experts) {
    return experts.reads.bytes - std::min(experts.reads.bytes, experts.lookahead.wasted_bytes);
}

// The most that was measured, bytes per second: the probe is short, and the disk may have been slower just then than it is.
double bandwidth(const Engine &engine, const backend::StoreCounters &experts) {
    const double reading = seconds_of(experts.reads.active_ns);
    const double seen = reading > 0 ? static_cast<double>(experts.reads.bytes) / reading : 0;
    return std::max(engine.report().disk_bandwidth, seen);
}

}  // namespace

telemetry::BoundInput bound_input(const Engine &engine, const GenerationStats &stats) {
    const backend::StoreCounters &experts = stats.decode.experts;
    telemetry::BoundInput input;
    input.tokens = stats.step_seconds.size();
    input.seconds = std::accumulate(stats.step_seconds.begin(), stats.step_seconds.end(), 0.0);
    input.expert_seconds = seconds_of(experts.expert_ns);
    input.splits = experts.splits;
    input.cached_splits = experts.cached_splits;
    input.cached_seconds = seconds_of(experts.cached_ns);
    input.needed_bytes = needed_bytes(experts);
    input.bandwidth = bandwidth(engine, experts);
    return input;
}

telemetry::PromptBoundInput prompt_bound_input(const Engine &engine, const GenerationStats &stats) {
    const backend::StoreCounters &experts = stats.prompt.experts;
    return {.tokens = stats.prompt_tokens,
            .seconds = stats.prompt.seconds,
            .stall_seconds = seconds_of(experts.stall_ns),
            .needed_bytes = needed_bytes(experts),
            .bandwidth = bandwidth(engine, experts)};
}

void generate(Engine &engine, const GenerationRequest &request, GenerationStats &stats) {
    if (request.prompt.empty()) {
        throw Error("the model's tokenizer makes no tokens of the prompt; give another text");
    }
    stats = {};
    const auto n_prompt = static_cast<uint32_t>(request.prompt.size());
    const uint32_t n_ctx = llama_n_ctx(engine.context());
    const uint32_t held = engine.held_tokens();
    if (held + n_prompt > n_ctx) {
        throw Error(cat("the prompt has ", n_prompt, " tokens, but the context of ", n_ctx, " has room for ",
                        n_ctx - held, "; give a larger -c"));
    }
    stats.step_seconds.reserve(std::min(request.max_tokens, n_ctx - held - n_prompt));
    stats.tokens.reserve(stats.step_seconds.capacity() + 1);
    try {
        decode_prompt(engine, request, held, stats);
        decode_steps(engine, request, n_ctx - held - n_prompt, stats);
    } catch (const Cancelled &) {
        stats.stop = StopReason::kCancelled;
    }
    engine.take_cancel();  // one that came after the last step is done with
}

}  // namespace bmoe::engine
