#include "engine/warm_start.h"

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

}  // namespace

WarmStart::WarmStart(std::string path, bool in_cache_folder, cache::ProfileKey key, Note note)
    : path_(std::move(path)), in_cache_folder_(in_cache_folder), key_(std::move(key)), note_(std::move(note)) {}

std::unique_ptr<WarmStart> WarmStart::begin(const Options &options, backend::ExpertStore &store) {
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
        store.start_warming(profile.frequencies, [note](const backend::WarmReport &report) {
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
