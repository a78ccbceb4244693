#include "engine/warm_start.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/user_folder.h"
#include "gguf/fingerprint.h"

namespace bmoe::engine {

namespace {

namespace fs = std::filesystem;

// Where programs keep what they can do without (XDG base directories); empty if the environment does not say.
fs::path cache_folder() { return user_folder("XDG_CACHE_HOME", ".cache"); }

std::string file_name(uint64_t fingerprint) {
    char name[32];
    std::snprintf(name, sizeof(name), "%016" PRIx64 ".profile", fingerprint);
    return name;
}

// While weights are loaded, llama.cpp passes those that it rearranges through a buffer of the size of the largest. The plan
// has no item for it, but the context, which is made later, leaves its memory free until then.
uint64_t most_bytes(const cache::MemoryPlan &plan, backend::ExpertStore &store) {
    uint64_t buffer = 0;
    for (const gguf::Tensor &tensor : store.model().tensors()) {
        if (store.bank(tensor.info.name) == nullptr) {
            buffer = std::max(buffer, tensor.info.bytes);
        }
    }
    const uint64_t unused = plan.items.kv + plan.items.compute;
    const uint64_t missing = buffer > unused ? buffer - unused : 0;
    return plan.slots > missing ? plan.slots - missing : 0;
}

}  // namespace

WarmStart::WarmStart(std::string path, bool in_cache_folder, cache::ProfileKey key, Note note)
    : path_(std::move(path)), in_cache_folder_(in_cache_folder), key_(std::move(key)), note_(std::move(note)) {}

std::unique_ptr<WarmStart> WarmStart::begin(const Options &options, const cache::MemoryPlan &plan,
                                            backend::ExpertStore &store) {
    const Note note = [on_note = options.on_note](const std::string &line) {
        if (on_note) {
            on_note("warm start: " + line);
        }
    };
    const cache::Policy *policy = store.cache()->policy();
    if (policy == nullptr || policy->frequencies().empty()) {
        if (!options.profile.empty()) {
            note(cat("the profile ", options.profile, " is of use only with an expert cache and --cache-policy reap"));
        }
        return nullptr;
    }
    const cache::ProfileKey key(gguf::fingerprint(store.model()), store.geometry());
    std::string path = options.profile;
    if (path.empty()) {
        const fs::path folder = cache_folder();
        if (folder.empty()) {
            note("neither XDG_CACHE_HOME nor HOME is an absolute path; give --profile, or --no-warm-start");
            return nullptr;
        }
        path = (folder / file_name(key.model)).string();
    }
    const cache::ProfileRead profile = cache::read_profile(path, key);
    if (!profile.problem.empty()) {
        note(profile.problem + "; the cache starts empty");
    }
    if (!profile.frequencies.empty()) {
        store.start_warming(profile.frequencies, most_bytes(plan, store), [note](const backend::WarmReport &report) {
            if (report.failed > 0) {
                note(
                    cat(report.failed, " reads failed, their experts are not in the cache; the first: ", report.error));
            }
        });
    }
    if (!profile.replaceable) {
        return nullptr;
    }
    return std::unique_ptr<WarmStart>(new WarmStart(path, options.profile.empty(), key, note));
}

void WarmStart::save(const backend::ExpertStore &store) const noexcept {
    try {
        const std::vector<float> frequencies = store.learned_frequencies();
        if (frequencies.empty()) {
            return;
        }
        if (in_cache_folder_) {
            const fs::path folder = fs::path(path_).parent_path();
            std::error_code failed;
            fs::create_directories(folder, failed);
            if (failed) {
                throw Error(cat("cannot make the folder ", folder.string(), ": ", failed.message()));
            }
        }
        cache::write_profile(path_, key_, frequencies);
    } catch (const std::exception &error) {
        note_(cat(error.what(), "; the next run starts as this one did"));
    }
}

}  // namespace bmoe::engine
