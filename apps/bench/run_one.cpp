#include "bench/run_one.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/mib.h"
#include "bench/engine_settings.h"
#include "bench/prompt_cut.h"
#include "bench/statistics.h"
#include "engine/engine.h"
#include "engine/generation.h"

namespace bmoe::bench {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

json per(double value, double unit) { return unit > 0 ? json(value / unit) : json(); }

json measured(const std::optional<double> &value) { return value ? json(*value) : json(); }

std::string read_text(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file || text.str().empty()) {
        throw Error(cat(path, ": cannot be read or is empty; give another text with --prompt"));
    }
    return text.str();
}

Prompt make_prompt(engine::Engine &engine, const json &request) {
    const std::string path = request.at("prompt");
    const std::string text = read_text(path);
    return cut_prompt({path, engine.tokenize(text, true), engine.tokenize(text, false)}, request.at("prompt_skip"),
                      request.at("prompt_tokens"));
}

engine::Options engine_options(const json &request) {
    engine::Options options;
    options.model = request.at("model");
    options.threads = request.at("threads");
    options.n_ctx = request.at("prompt_tokens").get<uint32_t>() + request.at("tokens").get<uint32_t>();
    for (const auto &[name, value] : request.at("settings").items()) {
        apply_setting(name, value, options);
    }
    return options;
}

constexpr const char *kExpertFigures[] = {
    "prompt_read_bytes",
    "prompt_read_gib_per_second",
    "prompt_stall_seconds",
    "warmed_bytes",
    "cache_mib",
    "policy",
    "hit_rate",
    "read_bytes",
    "mib_per_token",
    "read_gib_per_second",
    "stall_seconds",
    "o_direct",
    "huge_pages",
    "bound_compute_seconds",
    "bound_io_seconds",
    "bound_reached",
    "disk_gib_per_second",
    "guesses_started",
    "guesses_right",
    "guessable_misses",
    "wasted_bytes",
    "early_bytes",
    "prompt_bound_seconds",
    "prompt_bound_reached",
};

void add_expert_figures(json &figures, const engine::Engine &engine, const engine::GenerationStats &stats) {
    for (const char *name : kExpertFigures) {
        figures[name] = nullptr;
    }
    if (engine.store() == nullptr || engine.store()->cache() == nullptr) {
        return;
    }
    const backend::StoreCounters &decode = stats.decode.experts;
    const cache::ExpertCache &cache = *engine.store()->cache();
    const auto bytes = static_cast<double>(decode.reads.bytes);
    const backend::StoreCounters &prompt = stats.prompt.experts;
    figures["prompt_read_bytes"] = prompt.reads.bytes;
    figures["prompt_read_gib_per_second"] =
        per(static_cast<double>(prompt.reads.bytes) / kMiB / 1024, seconds_of(prompt.reads.active_ns));
    figures["prompt_stall_seconds"] = seconds_of(prompt.stall_ns);
    figures["warmed_bytes"] = engine.store()->warmed_bytes();
    figures["cache_mib"] = static_cast<double>(cache.usage().mapped_bytes) / kMiB;
    figures["policy"] = cache.policy() != nullptr ? cache.policy()->name() : "none";
    figures["hit_rate"] =
        per(static_cast<double>(decode.cache.hits), static_cast<double>(decode.cache.hits + decode.cache.misses));
    figures["read_bytes"] = decode.reads.bytes;
    figures["mib_per_token"] = per(bytes / kMiB, static_cast<double>(stats.step_seconds.size()));
    figures["read_gib_per_second"] = per(bytes / kMiB / 1024, seconds_of(decode.reads.active_ns));
    figures["stall_seconds"] = seconds_of(decode.stall_ns);
    figures["o_direct"] = engine.report().o_direct;
    figures["huge_pages"] = cache.usage().huge_pages;
    const telemetry::BoundInput input = engine::bound_input(engine, stats);
    const telemetry::Bound bound = telemetry::bound_of(input);
    const auto unless_negative = [](double value) { return value < 0 ? json() : json(value); };
    figures["bound_compute_seconds"] = unless_negative(bound.compute);
    figures["bound_io_seconds"] = unless_negative(bound.io);
    figures["bound_reached"] = unless_negative(bound.reached);
    figures["disk_gib_per_second"] = per(input.bandwidth, kMiB * 1024);
    figures["guesses_started"] = decode.lookahead.started;
    figures["guesses_right"] = decode.lookahead.adopted;
    figures["guessable_misses"] = decode.lookahead.misses;
    figures["wasted_bytes"] = decode.lookahead.wasted_bytes;
    figures["early_bytes"] = decode.lookahead.early_bytes;
    const telemetry::Bound prompt_bound = telemetry::bound_of(engine::prompt_bound_input(engine, stats));
    figures["prompt_bound_seconds"] = unless_negative(prompt_bound.bound);
    figures["prompt_bound_reached"] = unless_negative(prompt_bound.reached);
}

json figures_of(const engine::Engine &engine, const engine::GenerationStats &stats) {
    const auto steps = static_cast<double>(stats.step_seconds.size());
    double in_steps = 0;
    for (const double step : stats.step_seconds) {
        in_steps += step;
    }
    const telemetry::ProcessUsage &usage = stats.decode.usage;
    const FirstTokens first = first_tokens(stats.step_seconds);
    const int64_t rss = telemetry::peak_rss_bytes();
    json figures = {
        {"mode_note", engine.report().mode_note},
        {"threads", engine.threads()},
        {"load_seconds", engine.report().load_seconds},
        {"prompt_tokens", stats.prompt_tokens},
        {"prompt_seconds", stats.prompt.seconds},
        {"prompt_tokens_per_second", per(stats.prompt_tokens, stats.prompt.seconds)},
        {"generated", stats.generated},
        {"step_seconds", stats.step_seconds},
        {"step_median_seconds", measured(median(stats.step_seconds))},
        {"first_tokens_seconds", measured(first.seconds)},
        {"first_tokens_ratio", measured(first.ratio)},
        {"decode_seconds", stats.decode.seconds},
        {"decode_tokens_per_second", per(steps, in_steps)},
        {"user_seconds", usage.user_seconds},
        {"system_seconds", usage.system_seconds},
        {"major_faults_per_token", per(static_cast<double>(usage.major_faults), steps)},
        {"minor_faults_per_token", per(static_cast<double>(usage.minor_faults), steps)},
        {"peak_rss_bytes", rss < 0 ? json() : json(rss)},
        {"route_replay", engine.report().route_replay.empty() ? json() : json(engine.report().route_replay)},
    };
    add_expert_figures(figures, engine, stats);
    return figures;
}

// Opens the engine and closes it again.
json measure(const json &request, const engine::Options &options, Clock::time_point start) {
    engine::Engine engine(options);
    const Prompt prompt = make_prompt(engine, request);
    const double before_prompt = std::chrono::duration<double>(Clock::now() - start).count();
    engine::GenerationStats stats;
    engine::GenerationRequest generation;
    generation.prompt = prompt.tokens;
    generation.max_tokens = request.at("tokens");
    generation.at_end = engine::AtEnd::kGoOn;
    generation.on_text = [](std::string_view) { return true; };
    engine::generate(engine, generation, stats);
    json figures = figures_of(engine, stats);
    figures["mode"] = request.at("settings").at("mode");
    figures["prompt_repeats"] = prompt.repeats;
    figures["first_token_seconds"] = before_prompt + stats.prompt.seconds;
    return figures;
}

}  // namespace

void run_one(const std::string &text) {
    const auto start = Clock::now();
    const json request = json::parse(text);
    engine::Options options = engine_options(request);
    std::vector<std::string> notes;
    options.on_note = [&](const std::string &note) { notes.push_back(note); };
    json figures = measure(request, options, start);
    figures["notes"] = notes;  // those of closing too
    std::printf("%s\n", figures.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
}

}  // namespace bmoe::bench
