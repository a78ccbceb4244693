// Another size of the expert cache of an open model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cache/policy.h"
#include "engine/engine.h"

namespace bmoe::engine {

// `bytes`: of slots; 0: no cache. What the policy knows of the experts stays, also while there is no cache, and those used most
// are read again until the next decode. Not during a decode. Throws bmoe::Error if nothing is streamed, if the cache is too small
// for a layer, or if the memory is not there: the cache is then as it was. `on_note`: as Options::on_note, may be empty.
void resize_cache(Engine &engine, uint64_t bytes, cache::PolicyKind policy,
                  const std::function<void(const std::string &)> &on_note);

}  // namespace bmoe::engine
