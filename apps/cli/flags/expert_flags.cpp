#include "cli/flags/expert_flags.h"

#include <charconv>
#include <iostream>
#include <optional>

#include "cli/flags/checks.h"

namespace bmoe::cli {

namespace {

// "auto" or a number of MiB.
std::optional<uint64_t> cache_bytes(const std::string &text) {
    if (text == "auto") {
        return {};
    }
    uint64_t mib = 0;
    const char *end = text.data() + text.size();
    const auto [at, failure] = std::from_chars(text.data(), end, mib);
    if (failure != std::errc() || at != end || mib > (uint64_t{1} << 30)) {
        throw CLI::ValidationError("--cache-mb takes a number of MiB, 0 for no cache, or auto; not '" + text + "'");
    }
    return mib << 20;
}

io::ReadEngine read_engine(const std::string &name) {
    if (name == "lanes") return io::ReadEngine::kLanes;
    return name == "uring" ? io::ReadEngine::kUring : io::ReadEngine::kAuto;
}

// Flags that were given although they only do something when experts are streamed; empty if there are none.
std::string flags_for_streaming(const CLI::App &app) {
    std::string flags;
    for (const CLI::Option *option : app.get_options()) {
        const bool is_for_experts = option->get_group() == "Experts" && option->get_name() != "--moe-stream";
        const bool is_for_memory = option->get_group() == "Memory" && option->get_name() != "--ram";
        if ((is_for_experts || is_for_memory) && option->count() > 0) {
            flags += (flags.empty() ? "" : ", ") + option->get_name();
        }
    }
    return flags;
}

// Why experts are never read ahead with these options; empty if they can be.
std::string no_lookahead_with(const engine::Options &options) {
    if (!options.overlap) return "--overlap off";
    if (!options.route_replay.empty()) return "--route-replay";
    return options.cache_bytes == 0 ? "--cache-mb 0" : "";
}

}  // namespace

void ExpertFlags::add_to(CLI::App &app, CommandLine &out) {
    app_ = &app;
    app.add_option("--moe-stream", moe_stream_,
                   "Stream the routed experts from storage. auto: where the model does not fit into memory; on, or "
                   "nothing: always; off: never, plain llama.cpp with mmap; default: auto")
        ->expected(0, 1)
        ->check(CLI::IsMember({"auto", "on", "off"}))
        ->group("Experts");
    app.add_option("--cache-mb", cache_mb_, "Memory for cached experts in MiB; 0: no cache; auto: what is free")
        ->capture_default_str()
        ->group("Experts");
    app.add_option("--cache-policy", policy_, "Which expert to evict: reap or lru")
        ->capture_default_str()
        ->check(CLI::IsMember({"reap", "lru"}))
        ->group("Experts");
    CLI::Option *profile =
        app.add_option("--profile", out.engine.profile,
                       "File that remembers the experts used most, to start with them the next time; default: one "
                       "per model in ~/.cache/bmoe")
            ->check(file_name())
            ->group("Experts");
    app.add_flag("--no-warm-start", no_warm_start_, "Neither read nor write such a file")
        ->excludes(profile)
        ->group("Experts");
    app.add_option("--io-threads", out.engine.io_threads, "Reads in flight")
        ->capture_default_str()
        ->check(CLI::Range(1, 64))
        ->group("Experts");
    app.add_option("--io-engine", io_engine_,
                   "Who reads: uring (io_uring), lanes (threads); auto: uring if the system allows")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "lanes", "uring"}))
        ->group("Experts");
    app.add_option("--overlap", overlap_, "on: compute while experts are read; off: read first (for measurement)")
        ->capture_default_str()
        ->check(CLI::IsMember({"on", "off"}))
        ->group("Experts");
    app.add_option("--lookahead", lookahead_,
                   "Experts of the next layer read ahead on its router's guess; 0: none; auto: where it pays")
        ->capture_default_str()
        ->check(CLI::Range(0, 8) | CLI::IsMember({"auto"}))
        ->group("Experts");
    app.add_option("--route-replay", out.engine.route_replay,
                   "Route trace (CSV) that tokens take their experts from (for measurement; meaningless text)")
        ->check(file_name())
        ->group("Experts");
    app.add_flag("--no-odirect", no_odirect_, "Read through the page cache")->group("Experts");
}

void ExpertFlags::apply(CommandLine &out) {
    engine::Options &options = out.engine;
    options.stream = moe_stream_ != "off";
    options.stream_if_needed = moe_stream_ == "auto";
    if (!options.stream && !options.route_replay.empty()) {
        throw CLI::ValidationError("--route-replay is for streamed experts: leave it out, or --moe-stream off");
    }
    options.cache_bytes = cache_bytes(cache_mb_);
    options.policy = policy_ == "lru" ? cache::PolicyKind::kLru : cache::PolicyKind::kReap;
    options.warm_start = !no_warm_start_;
    options.io_engine = read_engine(io_engine_);
    options.overlap = overlap_ == "on";
    options.lookahead = lookahead_ == "auto" ? backend::Lookahead::kAuto : std::stoi(lookahead_);
    options.direct_io = no_odirect_ ? io::DirectIo::kOff : io::DirectIo::kVerified;
    out.streaming_flags = flags_for_streaming(*app_);
    if (const std::string reason = no_lookahead_with(options);
        options.stream && options.lookahead > 0 && !reason.empty()) {
        std::cerr << "note: with " << reason << " nothing is read ahead, and --lookahead has no effect\n";
    }
}

}  // namespace bmoe::cli
