#include "cli/flags/memory_flags.h"

#include <charconv>
#include <cmath>

#include "base/mib.h"

namespace bmoe::cli {

namespace {

constexpr uint64_t kMostMib = uint64_t{1} << 30;

// A number of MiB or, with a G, of GiB.
uint64_t ram_bytes(const std::string &text) {
    double number = 0;
    const char *end = text.data() + text.size();
    const auto [at, failure] = std::from_chars(text.data(), end, number);
    const std::string_view unit(at, static_cast<size_t>(end - at));
    const bool gib = unit == "G" || unit == "g";
    const double mib = gib ? number * 1024 : number;
    // Written so that it is false for what is no number.
    const bool in_range = mib >= 1 && mib <= static_cast<double>(kMostMib);
    if (failure != std::errc() || !(gib || unit.empty() || unit == "M" || unit == "m") || !in_range) {
        throw CLI::ValidationError("--ram takes a number of GiB or MiB, such as 6G or 6144M; not '" + text + "'");
    }
    return static_cast<uint64_t>(mib * static_cast<double>(kMiB));
}

engine::DenseWeights dense_weights(const std::string &name) {
    if (name == "mmap") return engine::DenseWeights::kMmap;
    return name == "warm" ? engine::DenseWeights::kWarm : engine::DenseWeights::kAnon;
}

}  // namespace

void MemoryFlags::add_to(CLI::App &app, CommandLine &out) {
    static_cast<void>(out);
    ram_option_ =
        app.add_option("--ram", ram_,
                       "The most memory that the whole process may take, e.g. 6G or 6144M; default: what is free")
            ->group("Memory");
    app.add_option("--cache-ceil-mb", ceiling_mib_, "The most that --cache-mb auto takes, in MiB")
        ->check(CLI::Range(uint64_t{1}, kMostMib))
        ->group("Memory");
    app.add_option("--cache-floor-mb", floor_mib_, "The least that --cache-mb auto does with, in MiB")
        ->check(CLI::Range(uint64_t{1}, kMostMib))
        ->group("Memory");
    app.add_option(
           "--dense-weights", dense_weights_,
           "Where the other weights are. anon: in memory of their own; mmap: in the page cache; warm: the same, "
           "read while loading")
        ->capture_default_str()
        ->check(CLI::IsMember({"anon", "mmap", "warm"}))
        ->group("Memory");
}

void MemoryFlags::apply(CommandLine &out) {
    engine::Options &options = out.engine;
    options.ram_bytes = ram_option_->count() > 0 ? ram_bytes(ram_) : 0;
    options.cache_ceiling_bytes = ceiling_mib_.value_or(0) * kMiB;
    options.cache_floor_bytes = floor_mib_.value_or(0) * kMiB;
    options.dense_weights = dense_weights(dense_weights_);
    if (options.ram_bytes > 0 && !options.stream) {
        throw CLI::ValidationError(
            "--ram cannot be held with --moe-stream off, where llama.cpp maps the whole file; leave out one of them");
    }
    if (options.cache_bytes.has_value() && (ceiling_mib_ || floor_mib_)) {
        throw CLI::ValidationError(
            "--cache-ceil-mb and --cache-floor-mb are bounds for --cache-mb auto; leave them out, or --cache-mb");
    }
    if (ceiling_mib_ && floor_mib_ && *floor_mib_ > *ceiling_mib_) {
        throw CLI::ValidationError("--cache-floor-mb is more than --cache-ceil-mb");
    }
}

}  // namespace bmoe::cli
