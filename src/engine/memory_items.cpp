#include "engine/memory_items.h"

#include <algorithm>

#include "backend/expert_store.h"
#include "backend/ggml_device.h"
#include "base/mib.h"
#include "engine/context.h"
#include "engine/loading_peak.h"
#include "gguf/model_file.h"
#include "llama-ext.h"

namespace bmoe::engine {

namespace {

// Program, graph metadata, buffers for reading, thread stacks, bookkeeping of the cache and the allocator's slack.
constexpr uint64_t kOther = 72 * kMiB;
// Of that, what a program of ours has before it opens an engine.
constexpr uint64_t kProgram = 32 * kMiB;
// The vocabulary in llama.cpp's tables, for each byte that it takes in the file, while the file's copies are still there.
constexpr uint64_t kPerHeaderByte = 12;
// A row of a wide layer's input, which the CPU backend converts before it multiplies.
constexpr uint64_t kWorkPerToken = 16 << 10;

uint64_t other_bytes(const Options &options, const ContextSetting &setting, uint32_t n_ubatch) {
    // That of a program which embeds the engine counts where a ceiling holds for the whole process.
    const uint64_t foreign = options.ram_bytes > 0 ? setting.held_before - std::min(setting.held_before, kProgram) : 0;
    return kOther + setting.file->metadata().data_offset * kPerHeaderByte + n_ubatch * kWorkPerToken + foreign;
}

uint64_t whole_mib(uint64_t bytes) { return mib_up(bytes) * kMiB; }

}  // namespace

cache::MemoryItems measure_items(const Options &options, llama_model *model, const ContextSetting &setting,
                                 uint32_t n_ubatch) {
    const ContextPtr context = make_context(options, model, setting.pool, setting.threads, setting.store, n_ubatch);
    cache::MemoryItems items;
    for (const auto &[type, data] : llama_get_memory_breakdown(context.get())) {
        items.dense += type == backend::expert_buffer_type() ? 0 : data.model;
        items.kv += data.context;
        items.compute += data.compute;
    }
    items.dense = whole_mib(items.dense);
    items.kv = whole_mib(items.kv);
    items.compute = whole_mib(items.compute);
    items.staging = setting.store != nullptr ? whole_mib(setting.store->staging_bytes()) : 0;
    // What loading takes for a moment gets the memory of what is made later. Of whole MiB, so that fewer tokens never take more.
    const uint64_t loaded = items.dense + items.kv + items.compute;
    const uint64_t loading = std::max(loaded, whole_mib(most_while_loading(weights_to_load(model))));
    items.other = whole_mib(other_bytes(options, setting, n_ubatch)) + loading - loaded;
    return items;
}

}  // namespace bmoe::engine
