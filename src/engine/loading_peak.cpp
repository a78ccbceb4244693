#include "engine/loading_peak.h"

#include <algorithm>
#include <map>
#include <string>

#include "backend/ggml_device.h"
#include "ggml-backend.h"
#include "llama-model.h"

namespace bmoe::engine {

std::vector<LoadedWeights> weights_to_load(const llama_model *measured) {
    std::map<std::string, LoadedWeights> by_name;
    for (const auto &[name, tensor] : llama_internal_get_tensor_map(measured)) {
        ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(tensor->buffer);
        if (type == backend::expert_buffer_type()) {
            continue;
        }
        LoadedWeights &weights = by_name[ggml_backend_buft_name(type)];
        weights.staged = !ggml_backend_buft_is_host(type);
        weights.weights.push_back({ggml_nbytes(tensor), ggml_backend_buft_get_alloc_size(type, tensor)});
    }
    std::vector<LoadedWeights> all;
    for (auto &[name, weights] : by_name) {
        if (weights.staged) {
            std::stable_sort(weights.weights.begin(), weights.weights.end(),
                             [](const auto &a, const auto &b) { return a.file_bytes > b.file_bytes; });
        }
        all.push_back(std::move(weights));
    }
    std::stable_partition(all.begin(), all.end(), [](const LoadedWeights &weights) { return weights.staged; });
    return all;
}

uint64_t most_while_loading(const std::vector<LoadedWeights> &all) {
    uint64_t held = 0;
    uint64_t most = 0;
    for (const LoadedWeights &weights : all) {
        for (const LoadedWeights::Weight &weight : weights.weights) {
            held += weight.held_bytes;
            most = std::max(most, held + (weights.staged ? weight.file_bytes : 0));
        }
    }
    return most;
}

}  // namespace bmoe::engine
