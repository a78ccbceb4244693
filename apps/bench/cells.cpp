#include "bench/cells.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"

namespace bmoe::bench {

namespace {

constexpr const char *kWarmStart = "warm-start";

// Every streaming cell exists in each of these variants too, as NAME-SUFFIX. A new one is a line here, and in
// engine_settings.cpp if its setting is new.
struct Variant {
    const char *suffix;
    const char *setting;
    const char *value;
};
constexpr Variant kVariants[] = {
    {"lru", "policy", "lru"},
    {"serial", "overlap", "off"},
    {"unguessed", "lookahead", "0"},
    {"warm", kWarmStart, "on"},
};

constexpr int kMemoryGib[] = {3, 4, 6, 8, 11};
constexpr int kCacheMib[] = {0, 500, 1000, 2000, 4000};
constexpr uint32_t kPrompts[] = {64, 512, 2048, 8192};
constexpr uint32_t kPromptsByUbatch[] = {2048, 8192};
constexpr uint32_t kUbatches[] = {512, 2048};
constexpr int kReplayPercent[] = {10, 15, 20, 25};
constexpr uint32_t kTokensAfterPrefill = 4;
constexpr uint32_t kLongPrompt = 512;

uint64_t gib(int n) { return static_cast<uint64_t>(n) * 1024; }

Cell streaming(std::string name, uint64_t memory_mib, std::string cache) {
    Cell cell;
    cell.name = std::move(name);
    cell.memory_mib = memory_mib;
    cell.settings = {{"mode", "stream"}, {"cache", std::move(cache)}};
    return cell;
}

Cell whole(std::string name, const char *mode) {
    Cell cell;
    cell.name = std::move(name);
    cell.settings = {{"mode", mode}};
    return cell;
}

Cell with_prompt(Cell cell, uint32_t tokens) {
    cell.prompt_tokens = tokens;
    cell.tokens = kTokensAfterPrefill;
    return cell;
}

// Decode as it is after a prompt of some length: attention costs more, and the cache holds what the prompt left.
Cell after_long_prompt(Cell cell) {
    cell.name += cat("-after-", kLongPrompt);
    cell.prompt_tokens = kLongPrompt;
    return cell;
}

std::vector<Cell> streaming_cells() {
    std::vector<Cell> cells;
    for (const int memory : kMemoryGib) {
        cells.push_back(streaming(cat("decode-", memory, "g-auto"), gib(memory), "auto"));
    }
    for (const int cache : kCacheMib) {
        cells.push_back(streaming(cat("decode-6g-", cache), gib(6), cat(cache)));
    }
    cells.push_back(after_long_prompt(streaming("decode-6g-auto", gib(6), "auto")));
    // A prompt that uses almost every expert, so that little is left to read.
    Cell all = streaming("decode-whole", 0, "whole");
    all.prompt_tokens = kLongPrompt;
    cells.push_back(std::move(all));
    for (const uint32_t prompt : kPrompts) {
        cells.push_back(with_prompt(streaming(cat("prefill-", prompt), gib(6), "auto"), prompt));
    }
    return cells;
}

void add_variants(std::vector<Cell> &cells) {
    const std::vector<Cell> originals = cells;
    for (const Variant &variant : kVariants) {
        for (Cell cell : originals) {
            if (std::string_view(variant.setting) == kWarmStart && cell.settings["cache"] == "0") {
                continue;  // nothing to warm
            }
            cell.name += cat("-", variant.suffix);
            cell.settings[variant.setting] = variant.value;
            cells.push_back(std::move(cell));
        }
    }
}

void add_replays(std::vector<Cell> &cells) {
    for (const int percent : kReplayPercent) {
        for (const char *policy : {"lru", "reap"}) {
            Cell cell = streaming(cat("replay-", percent, "pct-", policy), 0, cat(percent, "%"));
            cell.settings["policy"] = policy;
            cell.replays = true;
            cells.push_back(std::move(cell));
        }
    }
}

Cell with_ubatch(Cell cell, uint32_t tokens) {
    cell.name += cat("-ub", tokens);
    cell.settings["ubatch"] = cat(tokens);
    return cell;
}

void add_ubatches(std::vector<Cell> &cells) {
    for (const uint32_t prompt : kPromptsByUbatch) {
        const Cell prefill = find_cell(cells, cat("prefill-", prompt));
        for (const uint32_t ubatch : kUbatches) {
            cells.push_back(with_ubatch(prefill, ubatch));
        }
    }
}

// llama.cpp alone, for comparison.
void add_plain(std::vector<Cell> &cells) {
    for (const int memory : kMemoryGib) {
        for (const int read_ahead : {128, -1}) {
            Cell cell = whole(cat("mmap-", memory, "g-ra", read_ahead < 0 ? "default" : cat(read_ahead)), "mmap");
            // Rearranged weights are a copy in memory: the kernel would end the run.
            cell.settings["repack"] = "off";
            cell.memory_mib = gib(memory);
            cell.read_ahead_kib = read_ahead;
            cells.push_back(std::move(cell));
        }
    }
    Cell repacked = whole("resident", "resident");
    Cell plain = whole("resident-plain", "resident");
    plain.settings["repack"] = "off";
    Cell plain_experts = whole("resident-plain-experts", "resident");
    plain_experts.settings["repack-experts"] = "off";
    for (const Cell &resident : {repacked, plain, plain_experts}) {
        cells.push_back(resident);
        cells.push_back(after_long_prompt(resident));
        for (const uint32_t prompt : kPrompts) {
            Cell cell = with_prompt(resident, prompt);
            cell.name += cat("-prefill-", prompt);
            cells.push_back(std::move(cell));
        }
    }
    cells.push_back(with_ubatch(find_cell(cells, "resident-prefill-2048"), 2048));
}

std::vector<Cell> make_cells() {
    std::vector<Cell> cells = streaming_cells();
    add_variants(cells);
    add_ubatches(cells);
    add_replays(cells);
    add_plain(cells);
    return cells;
}

[[noreturn]] void refuse(std::string_view name) {
    throw Error(cat("no cell is called '", name, "'; bmoe-bench list shows all of them"));
}

}  // namespace

bool starts_warm(const Cell &cell) { return cell.settings.contains(kWarmStart); }

const std::vector<Cell> &all_cells() {
    static const std::vector<Cell> cells = make_cells();
    return cells;
}

std::vector<Cell> select_cells(const std::vector<Cell> &cells, std::string_view globs) {
    std::vector<Cell> chosen;
    if (globs.empty()) {
        refuse(globs);
    }
    while (!globs.empty()) {
        const size_t comma = globs.find(',');
        const std::string glob(globs.substr(0, comma));
        globs = comma == std::string_view::npos ? std::string_view{} : globs.substr(comma + 1);
        bool matched = false;
        for (const Cell &cell : cells) {
            if (fnmatch(glob.c_str(), cell.name.c_str(), 0) != 0) {
                continue;
            }
            matched = true;
            const bool is_new =
                std::none_of(chosen.begin(), chosen.end(), [&](const Cell &other) { return other.name == cell.name; });
            if (is_new) {
                chosen.push_back(cell);
            }
        }
        if (!matched) {
            refuse(glob);
        }
    }
    return chosen;
}

const Cell &find_cell(const std::vector<Cell> &cells, std::string_view name) {
    const auto found = std::find_if(cells.begin(), cells.end(), [&](const Cell &cell) { return cell.name == name; });
    if (found == cells.end()) {
        refuse(name);
    }
    return *found;
}

}  // namespace bmoe::bench
