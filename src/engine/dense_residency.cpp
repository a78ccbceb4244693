#include "engine/dense_residency.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ggml.h"
#include "io/file_mapping.h"
#include "telemetry/page_residency.h"

// In none of llama.cpp's headers that stand alone.
const std::vector<std::pair<std::string, ggml_tensor *>> &llama_internal_get_tensor_map(const llama_model *model);

namespace bmoe::engine {

double dense_resident_fraction(const Engine &engine) {
    const gguf::ModelFile &file = engine.file();
    if (engine.report().dense_mapped && !std::all_of(file.shards().begin(), file.shards().end(), [](const auto &shard) {
            return io::residency_is_told(shard->path());
        })) {
        return -1;
    }
    telemetry::PageCount all;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(engine.model())) {
        if (file.is_bank(name) || tensor->data == nullptr) {
            continue;
        }
        const auto count = telemetry::count_resident_pages(tensor->data, ggml_nbytes(tensor));
        if (!count) {
            return -1;
        }
        all.pages += count->pages;
        all.resident += count->resident;
    }
    return all.pages > 0 ? static_cast<double>(all.resident) / static_cast<double>(all.pages) : -1;
}

}  // namespace bmoe::engine
