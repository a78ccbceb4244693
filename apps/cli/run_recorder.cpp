#include "cli/run_recorder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "cli/run_configuration.h"
#include "telemetry/memory_usage.h"
#include "telemetry/progress.h"

namespace bmoe::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kProgressSeconds = 1;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

telemetry::ExpertFigures expert_figures(const backend::StoreCounters &counters, int threads) {
    telemetry::ExpertFigures figures;
    figures.stall = seconds_of(counters.stall_ns);
    figures.compute = seconds_of(counters.compute_ns) / threads;
    figures.reads = static_cast<int64_t>(counters.reads.reads);
    figures.bytes = static_cast<int64_t>(counters.reads.bytes);
    figures.hits = static_cast<int64_t>(counters.cache.hits);
    figures.misses = static_cast<int64_t>(counters.cache.misses);
    figures.speculative_bytes = static_cast<int64_t>(counters.reads.speculative_bytes);
    figures.guessed = static_cast<int64_t>(counters.lookahead.started);
    figures.guessed_right = static_cast<int64_t>(counters.lookahead.adopted);
    figures.wasted_bytes = static_cast<int64_t>(counters.lookahead.wasted_bytes);
    return figures;
}

}  // namespace

struct RunRecorder::Phase {
    const char *name = "";
    uint64_t most_tokens = 0;
    Clock::time_point start = Clock::now();
    backend::StoreCounters counters;  // at its start
    uint64_t tokens = 0;
    uint64_t shown_tokens = 0;  // in the last line
    Clock::time_point shown = start;
};

RunRecorder::RunRecorder(const RecordOptions &options) : options_(options) {
    if (OutputFile *file = open("--csv", options.csv)) {
        csv_ = std::make_unique<telemetry::CsvLog>(*file);
    }
    if (OutputFile *file = open("--route-trace", options.route_trace)) {
        routes_ = std::make_unique<cache::RouteTraceWriter>(*file, options.route_logits);
        route_recorder_ = std::make_unique<backend::RouteRecorder>(*routes_);
    }
    if (OutputFile *file = open("--io-trace", options.io_trace)) {
        reads_ = std::make_unique<backend::IoTrace>(*file);
    }
}

RunRecorder::~RunRecorder() {
    if (is_incomplete_) {
        complete_files();
    }
}

OutputFile *RunRecorder::open(const char *flag, const std::string &path) {
    return path.empty() ? nullptr : files_.emplace_back(std::make_unique<OutputFile>(flag, path)).get();
}

void RunRecorder::observe(engine::Options &options) {
    options.route_observer = route_recorder_.get();
    options.read_observer = reads_.get();
}

void RunRecorder::begin(engine::Engine &engine, const CommandLine &command) {
    engine_ = &engine;
    if (engine.store() == nullptr && (routes_ != nullptr || reads_ != nullptr)) {
        const char *flag = routes_ != nullptr ? "--route-trace" : "--io-trace";
        throw Error(engine.file().expert_layers().empty()
                        ? cat(command.engine.model, ": has no experts that could be traced; leave ", flag, " out")
                        : cat(command.engine.model, ": is not streamed, and ", flag,
                              " traces streamed experts; add --moe-stream on, or leave it out"));
    }
    is_incomplete_ = true;
    if (csv_ != nullptr) {
        csv_->begin(run_configuration(engine, command));
    }
    if (routes_ != nullptr) {
        routes_->begin(backend::route_trace_header(*engine.store()));
    }
    if (reads_ != nullptr) {
        reads_->begin(engine.store()->model());
    }
}

void RunRecorder::record(engine::GenerationRequest &request, const engine::GenerationStats &stats) {
    if (files_.empty() && !options_.progress) {
        return;
    }
    stats_ = &stats;
    prompt_tokens_ = request.prompt.size();
    reused_.reset();
    most_tokens_ = request.max_tokens;
    is_decoding_ = false;
    prompt_is_logged_ = false;
    begin_phase("prompt", prompt_tokens_);
    if (routes_ != nullptr) {
        routes_->next_tokens(turn_, cache::Phase::kPrefill, 0);
    }
    request.on_prompt = [this, also = std::move(request.on_prompt)](size_t done) {
        on_prompt(done);
        if (also) {
            also(done);
        }
    };
    request.on_text = [this, wanted = std::move(request.on_text)](std::string_view text) {
        if (!is_decoding_) {
            begin_decoding();
        }
        return wanted(text);
    };
    request.on_step = [this, also = std::move(request.on_step)](const engine::Step &step) {
        on_step(step);
        if (also) {
            also(step);
        }
    };
}

void RunRecorder::on_prompt(size_t done) {
    if (!reused_) {
        reused_ = done;
        phase_->most_tokens = prompt_tokens_ - done;
        return;
    }
    write_traces();
    phase_->tokens = done - *reused_;
    show_progress();
    if (routes_ != nullptr) {
        routes_->next_tokens(turn_, cache::Phase::kPrefill, static_cast<uint32_t>(phase_->tokens));
    }
}

// The prompt has given its first token.
void RunRecorder::begin_decoding() {
    is_decoding_ = true;
    // The first token is the prompt's, and no step goes beyond the context.
    const uint32_t room = llama_n_ctx(engine_->context()) - engine_->held_tokens();
    begin_phase("decode", std::min(most_tokens_ - 1, room));
    if (routes_ != nullptr) {
        routes_->next_tokens(turn_, cache::Phase::kDecode, 0);
    }
}

void RunRecorder::on_step(const engine::Step &step) {
    write_traces();
    if (routes_ != nullptr) {
        routes_->next_tokens(turn_, cache::Phase::kDecode, step.index + 1);
    }
    log_prompt();
    if (csv_ != nullptr) {
        csv_->add_token(csv_row(step.index + 1, step.interval));
    }
    ++phase_->tokens;
    if (seconds_since(phase_->shown) >= kProgressSeconds) {
        show_progress();
    }
}

void RunRecorder::finish_request() {
    if (stats_ == nullptr) {
        return;
    }
    log_prompt();
    if (phase_->tokens > phase_->shown_tokens) {
        show_progress();
    }
    if (reads_ != nullptr) {
        reads_->write_out();
    }
    turn_ += stats_->prompt.seconds > 0 ? 1 : 0;
    stats_ = nullptr;
}

bool RunRecorder::finish() {
    if (engine_ != nullptr && engine_->store() != nullptr) {
        engine_->store()->set_route_observer(nullptr);
        if (reads_ != nullptr) {
            engine_->store()->finish_warming();
            engine_->store()->pool().drain();  // guesses that nobody waits for
            engine_->store()->pool().set_observer(nullptr);
        }
    }
    return complete_files();
}

// The engine may be gone.
bool RunRecorder::complete_files() {
    is_incomplete_ = false;
    if (reads_ != nullptr) {
        reads_->write_out();
    }
    if (csv_ != nullptr) {
        csv_->add_summary(telemetry::peak_rss_bytes());
    }
    for (const auto &file : files_) {
        file->close();
    }
    bool complete = true;
    for (const auto &file : files_) {
        if (!file->error().empty()) {
            std::fprintf(stderr, "error: %s\n", file->error().c_str());
            complete = false;
        }
    }
    return complete;
}

void RunRecorder::begin_phase(const char *name, uint64_t most_tokens) {
    phase_ = std::make_unique<Phase>();
    phase_->name = name;
    phase_->most_tokens = most_tokens;
    if (engine_->store() != nullptr) {
        phase_->counters = engine_->store()->counters();
    }
}

// What has been decoded is complete in the traces.
void RunRecorder::write_traces() {
    if (routes_ != nullptr) {
        routes_->commit();
    }
    if (reads_ != nullptr) {
        reads_->write_out();
    }
}

void RunRecorder::log_prompt() {
    if (csv_ != nullptr && !prompt_is_logged_ && stats_->prompt.seconds > 0) {
        csv_->add_prompt(csv_row(stats_->prompt_tokens, stats_->prompt));
    }
    prompt_is_logged_ = true;
}

telemetry::CsvRow RunRecorder::csv_row(uint32_t tokens, const engine::Interval &interval) const {
    telemetry::CsvRow row;
    row.turn = turn_;
    row.tokens = tokens;
    row.seconds = interval.seconds;
    row.usage = interval.usage;
    row.memory = telemetry::MemoryUsage::now();
    if (engine_->store() != nullptr) {
        row.experts = expert_figures(interval.experts, engine_->threads());
        const backend::LossyCounters &lossy = interval.experts.lossy;
        row.lossy = {static_cast<int64_t>(lossy.dropped), static_cast<int64_t>(lossy.substituted),
                     lossy.mass_dropped + lossy.mass_substituted};
    }
    return row;
}

void RunRecorder::show_progress() {
    phase_->shown = Clock::now();
    phase_->shown_tokens = phase_->tokens;
    if (!options_.progress) {
        return;
    }
    telemetry::Progress progress;
    progress.phase = phase_->name;
    progress.tokens = phase_->tokens;
    progress.of = phase_->most_tokens;
    progress.seconds = seconds_since(phase_->start);
    if (engine_->store() != nullptr) {
        const backend::StoreCounters counters = engine_->store()->counters().since(phase_->counters);
        const uint64_t uses = counters.cache.hits + counters.cache.misses;
        progress.hit_rate = uses > 0 ? static_cast<double>(counters.cache.hits) / static_cast<double>(uses) : -1;
        progress.read_bytes = static_cast<double>(counters.reads.bytes);
        progress.stall_seconds = seconds_of(counters.stall_ns);
    }
    progress.lossy = !engine_->report().lossy.empty();
    progress.available_bytes = telemetry::MemoryUsage::now().available;
    std::fprintf(stderr, "%s\n", telemetry::progress_line(progress).c_str());
}

}  // namespace bmoe::cli
