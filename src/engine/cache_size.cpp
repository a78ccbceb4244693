#include "engine/cache_size.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/mib.h"
#include "cache/memory_limits.h"
#include "cache/slot_pool.h"

namespace bmoe::engine {

void resize_cache(Engine &engine, uint64_t bytes, cache::PolicyKind policy,
                  const std::function<void(const std::string &)> &on_note) {
    backend::ExpertStore *store = engine.store();
    if (store == nullptr) {
        throw Error("nothing is streamed: there is no expert cache to resize");
    }
    const cache::Geometry &geometry = store->geometry();
    const uint64_t least = cache::SlotPool::minimum_budget(geometry);
    if (bytes > 0 && bytes < least) {
        throw Error(cat("an expert cache of ", mib_up(bytes), " MiB is too small for one layer; give at least ",
                        mib_up(least), " MiB, or 0 for none"));
    }
    const cache::MemoryLimits limits = cache::read_memory_limits();
    const uint64_t wanted = std::min(bytes, cache::SlotPool::whole_budget(geometry));
    // Slots that nothing was read into yet take no memory.
    const uint64_t held = store->cache()->resident_bytes();
    if (wanted > held && wanted - held > limits.effective()) {
        throw Error(cat("an expert cache of ", mib_up(wanted), " MiB takes ", mib_up(wanted - held),
                        " MiB more than the one there is now holds, but there are ", limits.describe()));
    }
    const std::vector<float> frequencies = store->learned_frequencies();
    store->set_cache(wanted, policy);
    if (!frequencies.empty() && wanted > 0) {
        store->start_warming(frequencies, wanted, [on_note](const backend::WarmReport &report) {
            if (report.failed > 0 && on_note) {
                on_note(cat(report.failed,
                            " experts could not be read back into the resized cache; the first: ", report.error));
            }
        });
    }
}

}  // namespace bmoe::engine
