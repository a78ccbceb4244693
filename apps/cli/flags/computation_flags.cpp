#include "cli/flags/computation_flags.h"

#include <iostream>
#include <string>

#include "engine/context.h"
#include "engine/thread_count.h"

namespace bmoe::cli {

namespace {

engine::FlashAttention flash_attention(const std::string &name) {
    if (name == "on") return engine::FlashAttention::kOn;
    return name == "off" ? engine::FlashAttention::kOff : engine::FlashAttention::kAuto;
}

}  // namespace

void ComputationFlags::add_to(CLI::App &app, CommandLine &out) {
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
    app.add_option("--flash-attn", flash_attention_, "Flash attention: auto, on or off; also -fa")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "on", "off"}))
        ->group("Computation");
    app.add_option("--ubatch", ubatch_,
                   "Prompt tokens computed at once, also -ub; auto: 512, or fewer or more as memory allows")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 20) | CLI::IsMember({"auto"}))
        ->group("Computation");
}

void ComputationFlags::apply(CommandLine &out) {
    out.engine.threads = engine::sensible_threads(
        out.engine.threads, [](const std::string &line) { std::cerr << "note: --threads: " << line << '\n'; });
    out.engine.flash_attention = flash_attention(flash_attention_);
    const std::string &values = out.engine.kv_type_v;
    if (flash_attention_ == "off" && engine::is_quantized_kv_type(values)) {
        throw CLI::ValidationError("--cache-type-v " + values +
                                   " needs flash attention: leave out --flash-attn off, or give --cache-type-v f16");
    }
    out.engine.n_ubatch = ubatch_ == "auto" ? 0 : static_cast<uint32_t>(std::stoul(ubatch_));
}

}  // namespace bmoe::cli
