#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <thread>

#include "bmoe_version.h"
#include "engine/engine.h"

namespace bmoe::cli {

namespace {

constexpr const char *kExamples = R"(Examples:
  bmoe-cli -m model.gguf --moe-stream -p "Once upon a time"
      stream the experts; the cache takes what memory is free
  bmoe-cli -m model-00001-of-00003.gguf --moe-stream --cache-mb 4000 --chat -p "What is a router?"
      a split model, a cache of 4000 MiB, the model's own chat template
  bmoe-cli -m model.gguf -p "Once upon a time"
      the same file as plain llama.cpp with mmap, for comparison
)";

// "auto" or a number of MiB.
std::string parse_cache_mb(const std::string &text, engine::Options &options) {
    if (text == "auto") {
        options.cache_bytes.reset();
        return {};
    }
    uint64_t mib = 0;
    const char *end = text.data() + text.size();
    const auto [at, failure] = std::from_chars(text.data(), end, mib);
    if (failure != std::errc() || at != end || mib > (uint64_t{1} << 30)) {
        return "--cache-mb takes a number of MiB, 0 for no cache, or auto; not '" + text + "'";
    }
    options.cache_bytes = mib << 20;
    return {};
}

io::ReadEngine parse_io_engine(const std::string &name) {
    if (name == "lanes") return io::ReadEngine::kLanes;
    return name == "uring" ? io::ReadEngine::kUring : io::ReadEngine::kAuto;
}

// The arguments, last one first as CLI11 wants them, with llama.cpp's short names of several letters, which CLI11 does not
// know, spelled out.
std::vector<std::string> with_long_names(int argc, char **argv) {
    constexpr std::pair<std::string_view, const char *> kNames[] = {
        {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-fa", "--flash-attn"}, {"-ub", "--ubatch"}};
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) {
        const auto *name = std::find_if(std::begin(kNames), std::end(kNames),
                                        [&](const auto &names) { return names.first == argv[i]; });
        arguments.emplace_back(name != std::end(kNames) ? name->second : argv[i]);
    }
    return arguments;
}

// Flags that were given although they only do something when experts are streamed; empty if there are none.
std::string flags_for_streaming(const CLI::App &app) {
    std::string flags;
    for (const CLI::Option *option : app.get_options()) {
        if (option->get_group() == "Experts" && option->count() > 0 && option->get_name() != "--moe-stream" &&
            option->get_name() != "--n-expert-used") {
            flags += (flags.empty() ? "" : ", ") + option->get_name();
        }
    }
    return flags;
}

// Why experts are never read ahead with these options; empty if they can be.
std::string no_lookahead_with(const engine::Options &options) {
    if (!options.overlap) return "--overlap off";
    return options.cache_bytes == 0 ? "--cache-mb 0" : "";
}

}  // namespace

Parsed parse_command_line(int argc, char **argv, CommandLine &out, int &exit_code) {
    CLI::App app("Runs Mixture-of-Experts language models (GGUF) that are larger than memory.", "bmoe-cli");
    app.footer(kExamples);
    app.set_version_flag("--version", std::string("bmoe ") + kVersion + " (llama.cpp " +
                                          std::string(kLlamaCppCommit).substr(0, 12) + ")");
    app.get_formatter()->column_width(34);
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

    std::string cache_mb = "auto";
    std::string policy = "reap";
    std::string io_engine = "auto";
    std::string overlap = "on";
    std::string lookahead = "auto";
    std::string flash_attention = "auto";
    std::string ubatch = "auto";
    std::string dense_weights = "anon";
    bool no_odirect = false;
    bool no_repack = false;
    bool no_warm_start = false;
    bool stream = false;

    app.add_option("-m,--model", out.engine.model, "GGUF file, or any shard of a split one")
        ->required()
        ->group("Model");
    app.add_option("-c,--ctx-size", out.engine.n_ctx, "Context in tokens; 0: what the model was trained with")
        ->capture_default_str()
        ->check(CLI::Range(0, 1 << 24))
        ->group("Model");
    app.add_flag("--no-repack", no_repack, "Do not rearrange dense weights for faster kernels")->group("Model");

    app.add_option("-p,--prompt", out.prompt, "Text to continue, or the user's message with --chat")
        ->required()
        ->group("Generation");
    app.add_option("-n,--predict", out.max_tokens, "Tokens to generate at most")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 30))
        ->group("Generation");
    app.add_flag("--chat", out.chat, "Render the prompt with the model's own chat template")->group("Generation");

    app.add_flag("--moe-stream", stream,
                 "Stream the routed experts from storage; without it: plain llama.cpp with mmap")
        ->group("Experts");
    app.add_option("--cache-mb", cache_mb, "Memory for cached experts in MiB; 0: no cache; auto: what is free")
        ->capture_default_str()
        ->group("Experts");
    app.add_option("--dense-weights", dense_weights, "anon: read the other weights into memory of their own")
        ->capture_default_str()
        ->check(CLI::IsMember({"anon"}))
        ->group("Experts");
    app.add_option("--cache-policy", policy, "Which expert to evict: reap or lru")
        ->capture_default_str()
        ->check(CLI::IsMember({"reap", "lru"}))
        ->group("Experts");
    CLI::Option *profile =
        app.add_option("--profile", out.engine.profile,
                       "File that remembers the experts used most, to start with them the next time; default: one "
                       "per model in ~/.cache/bmoe")
            ->group("Experts");
    app.add_flag("--no-warm-start", no_warm_start, "Neither read nor write such a file")
        ->excludes(profile)
        ->group("Experts");
    app.add_option("--io-threads", out.engine.io_threads, "Reads in flight")
        ->capture_default_str()
        ->check(CLI::Range(1, 64))
        ->group("Experts");
    app.add_option("--io-engine", io_engine,
                   "Who reads: uring (io_uring), lanes (threads); auto: uring if the system allows")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "lanes", "uring"}))
        ->group("Experts");
    app.add_option("--overlap", overlap, "on: compute while experts are read; off: read first (for measurement)")
        ->capture_default_str()
        ->check(CLI::IsMember({"on", "off"}))
        ->group("Experts");
    app.add_option("--lookahead", lookahead,
                   "Experts of the next layer read ahead on its router's guess; 0: none; auto: where it pays")
        ->capture_default_str()
        ->check(CLI::Range(0, 8) | CLI::IsMember({"auto"}))
        ->group("Experts");
    app.add_option("--n-expert-used", out.engine.n_expert_used,
                   "Experts a token uses in each layer; fewer than the model was made for are faster, and lossy")
        ->check(CLI::Range(1, 1 << 16))
        ->group("Experts");
    app.add_option("--route-replay", out.engine.route_replay,
                   "Route trace (CSV) that decoded tokens take their experts from (for measurement; meaningless text)")
        ->group("Experts");
    app.add_flag("--no-odirect", no_odirect, "Read through the page cache")->group("Experts");

    app.add_option("-t,--threads", out.engine.threads, "Compute threads; 0: one for each physical core")
        ->capture_default_str()
        ->check(CLI::Range(0, 512))
        ->group("Computation");
    app.add_option("--cache-type-k", out.engine.kv_type_k, "Type of the keys in the KV cache, also -ctk")
        ->capture_default_str()
        ->check(CLI::IsMember(engine::kv_types()))
        ->group("Computation");
    app.add_option("--cache-type-v", out.engine.kv_type_v, "Type of the values in the KV cache, also -ctv")
        ->capture_default_str()
        ->check(CLI::IsMember(engine::kv_types()))
        ->group("Computation");
    app.add_option("--flash-attn", flash_attention, "Flash attention: auto, on or off; also -fa")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "on", "off"}))
        ->group("Computation");
    app.add_option("--ubatch", ubatch,
                   "Prompt tokens computed at once, also -ub; auto: 512, or fewer or more as memory allows")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 20) | CLI::IsMember({"auto"}))
        ->group("Computation");

    try {
        app.parse(with_long_names(argc, argv));
    } catch (const CLI::ParseError &error) {
        exit_code = app.exit(error) == 0 ? 0 : 2;
        return Parsed::kExit;
    }
    if (out.prompt.empty()) {
        std::cerr << "the prompt is empty: give some text with -p\n";
        exit_code = 2;
        return Parsed::kExit;
    }
    if (const std::string problem = parse_cache_mb(cache_mb, out.engine); !problem.empty()) {
        std::cerr << problem << '\n';
        exit_code = 2;
        return Parsed::kExit;
    }
    if (const std::string flags = flags_for_streaming(app); !stream && !flags.empty()) {
        std::cerr << "note: without --moe-stream nothing is streamed, and these have no effect: " << flags << '\n';
    }
    // More threads than processors wait for each other in turns: a token would take a hundred times as long.
    const auto processors = static_cast<int>(std::thread::hardware_concurrency());
    if (processors > 0 && out.engine.threads > processors) {
        std::cerr << "note: --threads " << out.engine.threads << " is more than the " << processors
                  << " processors that there are; " << processors << " are used\n";
        out.engine.threads = processors;
    }
    out.engine.stream = stream;
    out.engine.policy = policy == "lru" ? cache::PolicyKind::kLru : cache::PolicyKind::kReap;
    out.engine.warm_start = !no_warm_start;
    out.engine.io_engine = parse_io_engine(io_engine);
    out.engine.overlap = overlap == "on";
    out.engine.flash_attention = flash_attention == "auto" ? engine::FlashAttention::kAuto
                                 : flash_attention == "on" ? engine::FlashAttention::kOn
                                                           : engine::FlashAttention::kOff;
    out.engine.n_ubatch = ubatch == "auto" ? 0 : static_cast<uint32_t>(std::stoul(ubatch));
    out.engine.lookahead = lookahead == "auto" ? backend::Lookahead::kAuto : std::stoi(lookahead);
    out.engine.direct_io = no_odirect ? io::DirectIo::kOff : io::DirectIo::kVerified;
    out.engine.repack = !no_repack;
    if (const std::string reason = no_lookahead_with(out.engine);
        stream && out.engine.lookahead > 0 && !reason.empty()) {
        std::cerr << "note: with " << reason << " nothing is read ahead, and --lookahead has no effect\n";
    }
    return Parsed::kRun;
}

}  // namespace bmoe::cli
