#include <numeric>
#include <utility>

#include "base/clock.h"
#include "bmoe/bmoe.h"
#include "engine/answer_stream.h"
#include "engine/cache_size.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/prompt_maker.h"
#include "engine/thread_count.h"
#include "telemetry/process_usage.h"

namespace bmoe {

namespace {

engine::Options engine_options(const ModelOptions &options) {
    if (options.io_threads < 1 || options.io_threads > 64) {
        throw Error(cat("io_threads must be from 1 to 64, not ", options.io_threads));
    }
    if (options.threads < 0) {
        throw Error(cat("threads must not be negative: ", options.threads));
    }
    engine::Options wanted;
    wanted.model = options.path;
    wanted.stream = options.stream;
    wanted.cache_bytes = options.cache_bytes;
    wanted.warm_start = options.warm_start;
    wanted.io_threads = options.io_threads;
    wanted.n_ctx = options.context_tokens;
    wanted.n_ubatch = options.ubatch_tokens;
    wanted.threads = engine::sensible_threads(options.threads, options.on_note);
    wanted.on_progress = options.on_load;
    wanted.on_note = options.on_note;
    return wanted;
}

engine::Sampling engine_sampling(const Sampling &sampling) {
    engine::Sampling wanted{
        .temperature = sampling.temperature, .top_k = sampling.top_k, .top_p = sampling.top_p, .min_p = sampling.min_p};
    wanted.seed = sampling.seed.value_or(wanted.seed);
    return wanted;
}

StopReason reason_of(engine::StopReason reason, const engine::AnswerStream &stream) {
    switch (reason) {
        case engine::StopReason::kEndOfText:
            return StopReason::kEnd;
        case engine::StopReason::kMaxTokens:
            return StopReason::kMaxTokens;
        case engine::StopReason::kContextFull:
            return StopReason::kContext;
        case engine::StopReason::kCancelled:
            return StopReason::kCancelled;
        case engine::StopReason::kCaller:
            break;
    }
    return stream.ended() ? StopReason::kEnd : StopReason::kCaller;
}

ModelInfo info_of(const engine::Engine &engine) {
    const engine::OpenReport &report = engine.report();
    ModelInfo info;
    info.mode = report.mode_note;
    info.streaming = report.streaming;
    info.direct_io = report.o_direct;
    info.chat_template = llama_model_chat_template(engine.model(), nullptr) != nullptr;
    info.context_tokens = llama_n_ctx(engine.context());
    info.ubatch_tokens = report.n_ubatch;
    info.threads = engine.threads();
    info.load_seconds = report.load_seconds;
    info.dense_bytes = report.dense_bytes;
    info.expert_bytes = report.expert_bytes;
    info.planned_bytes = report.streaming ? report.plan.total() : 0;
    return info;
}

void check(const Request &request) {
    if (request.prompt.empty() == request.messages.empty()) {
        throw Error("a request needs either a prompt or messages");
    }
    for (const std::string &stop : request.stop) {
        if (stop.empty()) {
            throw Error("a stop text of a request is empty");
        }
    }
}

}  // namespace

class Model::Impl {
  public:
    explicit Impl(const ModelOptions &options)
        : on_note_(options.on_note),
          engine_(engine_options(options)),
          conversation_(engine_),
          prompts_(engine_),
          info_(info_of(engine_)) {}

    const ModelInfo &info() const { return info_; }
    void cancel() { engine_.cancel(); }
    void reset() { conversation_.reset(); }

    ModelStats stats() const {
        ModelStats stats;
        stats.held_tokens = engine_.held_tokens();
        stats.peak_rss = telemetry::peak_rss_bytes();
        if (engine_.store() == nullptr) {
            return stats;
        }
        const backend::StoreCounters counters = engine_.store()->counters();
        const cache::ExpertCache &cache = *engine_.store()->cache();
        stats.cache_bytes = cache.usage().mapped_bytes;
        stats.cached_bytes = cache.resident_bytes();
        stats.expert_hits = earlier_.hits + counters.cache.hits;
        stats.expert_misses = earlier_.misses + counters.cache.misses;
        stats.read_bytes = counters.reads.bytes;
        return stats;
    }

    void resize_cache(uint64_t bytes) {
        const ModelStats before = stats();
        engine::resize_cache(engine_, bytes, cache::PolicyKind::kReap, on_note_);
        earlier_.hits = before.expert_hits;
        earlier_.misses = before.expert_misses;
    }

    Answer generate(const Request &request) {
        check(request);
        Answer answer;
        engine::Prompt prompt;
        try {
            prompt = prompt_of(request);
        } catch (const engine::Cancelled &) {
            answer.reason = StopReason::kCancelled;
            return answer;
        }
        answer.prompt_tokens = static_cast<uint32_t>(prompt.tokens.size());
        engine::AnswerStream stream(prompt.chat, request.stop);
        const auto say = [&](const engine::AnswerStream::Delta &delta) {
            answer.reasoning += delta.reasoning;
            answer.text += delta.text;
            return (delta.reasoning.empty() || !request.on_reasoning || request.on_reasoning(delta.reasoning)) &&
                   (delta.text.empty() || !request.on_text || request.on_text(delta.text));
        };
        engine::GenerationRequest wanted;
        wanted.prompt = prompt.tokens;
        if (prompt.chat) {
            wanted.markers = prompt.chat->markers;
        }
        wanted.max_tokens = request.max_tokens;
        wanted.sampling = engine_sampling(request.sampling);
        wanted.on_text = [&](std::string_view piece) { return say(stream.add(piece)) && !stream.ended(); };
        if (request.on_prompt) {
            wanted.on_prompt = [&](size_t done) {
                request.on_prompt(static_cast<uint32_t>(done), answer.prompt_tokens);
            };
        }
        engine::GenerationStats stats;
        conversation_.generate(wanted, stats);
        answer.reason = reason_of(stats.stop, stream);
        answer.stop = stream.stop();
        if (answer.reason != StopReason::kCaller) {
            say(stream.finish());
        }
        if (stream.broke_format() && on_note_) {
            on_note_(engine::kBrokenFormat);
        }
        add_figures(stats, answer);
        return answer;
    }

  private:
    engine::Prompt prompt_of(const Request &request) {
        if (request.messages.empty()) {
            return prompts_.of_text(request.prompt);
        }
        std::vector<engine::ChatMessage> messages;
        for (const Message &message : request.messages) {
            messages.push_back({message.role, message.content});
        }
        return prompts_.of_messages(messages);
    }

    void add_figures(const engine::GenerationStats &stats, Answer &answer) const {
        answer.reused_tokens = stats.reused_tokens;
        answer.decoded_tokens = stats.prompt_tokens;
        answer.prompt_seconds = stats.prompt.seconds;
        answer.generated_tokens = stats.generated;
        answer.decode_steps = static_cast<uint32_t>(stats.step_seconds.size());
        answer.decode_seconds = std::accumulate(stats.step_seconds.begin(), stats.step_seconds.end(), 0.0);
        if (engine_.store() == nullptr) {
            return;
        }
        const backend::StoreCounters &decode = stats.decode.experts;
        const telemetry::Bound bound = telemetry::bound_of(engine::bound_input(engine_, stats));
        const uint64_t routed = decode.cache.hits + decode.cache.misses;
        answer.hit_rate = routed > 0 ? static_cast<double>(decode.cache.hits) / static_cast<double>(routed) : -1;
        answer.read_bytes = static_cast<int64_t>(decode.reads.bytes);
        answer.wait_seconds = seconds_of(decode.stall_ns);
        answer.bound_seconds = bound.bound;
        answer.bound_reached = bound.reached;
    }

    std::function<void(const std::string &)> on_note_;
    engine::Engine engine_;
    engine::Conversation conversation_;
    engine::PromptMaker prompts_;
    ModelInfo info_;
    cache::CacheCounters earlier_;  // of caches before the last resize
};

Model::Model(const ModelOptions &options) : impl_(std::make_unique<Impl>(options)) {}
Model::~Model() = default;
Model::Model(Model &&) noexcept = default;
Model &Model::operator=(Model &&) noexcept = default;

const ModelInfo &Model::info() const { return impl_->info(); }
ModelStats Model::stats() const { return impl_->stats(); }
Answer Model::generate(const Request &request) { return impl_->generate(request); }
void Model::cancel() noexcept { impl_->cancel(); }
void Model::reset() { impl_->reset(); }
void Model::resize_cache(uint64_t bytes) { impl_->resize_cache(bytes); }

}  // namespace bmoe
