// Remembers from one run of a model to the next which experts it uses, and starts with those in the cache.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/expert_store.h"
#include "cache/profile.h"
#include "engine/options.h"

namespace bmoe::engine {

class WarmStart {
  public:
    // Reads the profile of the store's model and starts to fill the cache by it; see ExpertStore::start_warming(). What goes
    // wrong is a line to options.on_note, now or later, and no error. nullptr if the store's cache has no use for a profile,
    // or the file must not be written to.
    static std::unique_ptr<WarmStart> begin(const Options &options, backend::ExpertStore &store);

    const std::string &path() const { return path_; }  // the profile

    // Writes what the cache has learned to the profile.
    void save(const backend::ExpertStore &store) const noexcept;

  private:
    using Note = std::function<void(const std::string &)>;

    WarmStart(std::string path, bool in_cache_folder, cache::ProfileKey key, Note note);

    std::string path_;
    bool in_cache_folder_;  // of the user, which is made if it is missing
    cache::ProfileKey key_;
    Note note_;
};

}  // namespace bmoe::engine
