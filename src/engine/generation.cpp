#include "engine/generation.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "base/error.h"

namespace bmoe::engine {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}

// Measures an interval from its construction to stop().
class IntervalMeter {
  public:
    explicit IntervalMeter(const Engine &engine) : engine_(engine) {
        if (engine.store() != nullptr) {
            experts_ = engine.store()->counters();
        }
        usage_ = telemetry::ProcessUsage::now();
        start_ = Clock::now();
    }
    Interval stop() const {
        Interval interval;
        interval.seconds = seconds_between(start_, Clock::now());
        interval.usage = telemetry::ProcessUsage::now().since(usage_);
        if (engine_.store() != nullptr) {
            interval.experts = engine_.store()->counters().since(experts_);
        }
        return interval;
    }

  private:
    const Engine &engine_;
    backend::StoreCounters experts_;
    telemetry::ProcessUsage usage_;
    Clock::time_point start_;
};

}  // namespace

telemetry::BoundInput bound_input(const Engine &engine, const GenerationStats &stats) {
    const backend::StoreCounters &experts = stats.decode.experts;
    telemetry::BoundInput input;
    input.tokens = stats.step_seconds.size();
    input.seconds = std::accumulate(stats.step_seconds.begin(), stats.step_seconds.end(), 0.0);
    input.expert_seconds = static_cast<double>(experts.expert_ns) * 1e-9;
    input.splits = experts.splits;
    input.cached_splits = experts.cached_splits;
    input.cached_seconds = static_cast<double>(experts.cached_ns) * 1e-9;
    input.needed_bytes = experts.reads.bytes - std::min(experts.reads.bytes, experts.lookahead.wasted_bytes);
    input.bandwidth = engine.report().disk_bandwidth;
    return input;
}

void generate(Engine &engine, std::span<const llama_token> prompt, uint32_t max_tokens, const OnText &on_text,
              GenerationStats &stats, AtEnd at_end) {
    if (prompt.empty()) {
        throw Error("the model's tokenizer makes no tokens of the prompt; give another text");
    }
    const llama_vocab *vocab = llama_model_get_vocab(engine.model());
    const std::unique_ptr<llama_sampler, void (*)(llama_sampler *)> sampler(llama_sampler_init_greedy(),
                                                                            llama_sampler_free);
    stats = {};
    stats.prompt_tokens = static_cast<uint32_t>(prompt.size());
    const uint32_t n_ctx = llama_n_ctx(engine.context());
    const auto held = static_cast<uint32_t>(llama_memory_seq_pos_max(llama_get_memory(engine.context()), 0) + 1);
    if (held + prompt.size() > n_ctx) {
        throw Error(cat("the prompt has ", prompt.size(), " tokens, but the context of ", n_ctx, " has room for ",
                        n_ctx - held, "; give a larger -c"));
    }
    uint32_t room = n_ctx - held - static_cast<uint32_t>(prompt.size());  // tokens that can still be decoded
    stats.step_seconds.reserve(std::min(max_tokens, room));

    const IntervalMeter prompt_meter(engine);
    try {
        engine.decode(prompt);
    } catch (...) {
        stats.prompt = prompt_meter.stop();
        const llama_pos last = llama_memory_seq_pos_max(llama_get_memory(engine.context()), 0);
        stats.prompt_tokens = static_cast<uint32_t>(last + 1) - held;
        throw;
    }
    stats.prompt = prompt_meter.stop();

    const IntervalMeter decode_meter(engine);
    try {
        while (stats.generated < max_tokens) {
            const auto step = Clock::now();
            const llama_token token = llama_sampler_sample(sampler.get(), engine.context(), -1);
            if (at_end == AtEnd::kStop && llama_vocab_is_eog(vocab, token)) {
                break;
            }
            ++stats.generated;
            if (!on_text(engine.piece(token)) || stats.generated == max_tokens) {
                break;
            }
            if (room-- == 0) {
                stats.context_full = true;
                break;
            }
            engine.decode({&token, 1});
            stats.step_seconds.push_back(seconds_between(step, Clock::now()));
        }
    } catch (...) {
        stats.decode = decode_meter.stop();
        throw;
    }
    stats.decode = decode_meter.stop();
}

}  // namespace bmoe::engine
