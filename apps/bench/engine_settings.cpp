#include "bench/engine_settings.h"

#include <charconv>

#include "backend/expert_store.h"
#include "base/error.h"
#include "cache/slot_pool.h"
#include "gguf/model_file.h"

namespace bmoe::bench {

namespace {

using engine::Options;

[[noreturn]] void refuse(const std::string &value, const char *wanted) {
    throw Error(cat("a cell's setting is '", value, "', not ", wanted));
}

uint64_t number(std::string_view text) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
        refuse(std::string(text), "a number");
    }
    return value;
}

bool is_on(const std::string &value) {
    if (value != "on" && value != "off") {
        refuse(value, "on or off");
    }
    return value == "on";
}

void set_mode(const std::string &value, Options &options) {
    if (value != "stream" && value != "mmap" && value != "resident") {
        refuse(value, "stream, mmap or resident");
    }
    options.stream = value == "stream";
    options.resident = value == "resident";
}

// MiB, "auto", "whole" (room for every expert), or a share of all experts, such as "20%".
void set_cache(const std::string &value, Options &options) {
    if (value == "auto") {
        options.cache_bytes.reset();
    } else if (value == "whole") {
        const auto model = gguf::ModelFile::open(options.model, io::DirectIo::kOff);
        const backend::ExpertStore store(*model, {});
        options.cache_bytes = cache::SlotPool::whole_budget(store.geometry());
    } else if (value.ends_with('%')) {
        const uint64_t percent = number(std::string_view(value).substr(0, value.size() - 1));
        options.cache_bytes = gguf::ModelFile::open(options.model, io::DirectIo::kOff)->expert_bytes() * percent / 100;
    } else {
        options.cache_bytes = number(value) << 20;
    }
}

void set_policy(const std::string &value, Options &options) {
    if (value != "reap" && value != "lru") {
        refuse(value, "reap or lru");
    }
    options.policy = value == "lru" ? cache::PolicyKind::kLru : cache::PolicyKind::kReap;
}

void set_ubatch(const std::string &value, Options &options) {
    options.n_ubatch = value == "auto" ? 0 : static_cast<uint32_t>(number(value));
}

struct Setting {
    const char *name;
    void (*apply)(const std::string &value, Options &options);
};
const Setting kSettings[] = {
    {"mode", set_mode},
    {"cache", set_cache},
    {"policy", set_policy},
    {"overlap", [](const std::string &value, Options &options) { options.overlap = is_on(value); }},
    {"lookahead",
     [](const std::string &value, Options &options) {
         options.lookahead = value == "auto" ? backend::Lookahead::kAuto : static_cast<int>(number(value));
     }},
    {"io-threads",
     [](const std::string &value, Options &options) { options.io_threads = static_cast<int>(number(value)); }},
    {"ubatch", set_ubatch},
    {"warm-start", [](const std::string &value, Options &options) { options.warm_start = is_on(value); }},
    {"profile", [](const std::string &value, Options &options) { options.profile = value; }},
    {"repack", [](const std::string &value, Options &options) { options.repack = is_on(value); }},
    {"repack-experts", [](const std::string &value, Options &options) { options.repack_experts = is_on(value); }},
    {"route-replay", [](const std::string &value, Options &options) { options.route_replay = value; }},
};

}  // namespace

void apply_setting(const std::string &name, const std::string &value, engine::Options &options) {
    for (const Setting &setting : kSettings) {
        if (name == setting.name) {
            setting.apply(value, options);
            return;
        }
    }
    throw Error(cat("no engine setting is called ", name));
}

}  // namespace bmoe::bench
