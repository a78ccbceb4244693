#include "engine/model_loader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "backend/expert_store.h"
#include "backend/ggml_device.h"
#include "backend/mapped_buffer.h"
#include "backend/plain_buffer.h"
#include "base/error.h"
#include "base/mib.h"
#include "engine/llama_log.h"
#include "gguf/model_file.h"
#include "gguf/model_mapping.h"
#include "gguf/stdio_stream.h"
#include "gguf/virtual_gguf.h"
#include "io/bulk_reader.h"

namespace bmoe::engine {

namespace {

bool forward_progress(float progress, void *data) {
    const auto &options = *static_cast<const Options *>(data);
    if (options.on_progress) {
        options.on_progress(progress);
    }
    return true;
}

llama_model_params model_params(const Options &options, const Overrides &overrides) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.kv_overrides = overrides.empty() ? nullptr : overrides.data();
    params.use_extra_bufts = options.repack;
    return params;
}

void report_progress(llama_model_params &params, const Options &options) {
    params.progress_callback = forward_progress;
    params.progress_callback_user_data = const_cast<Options *>(&options);
}

void note_resident_banks(const Options &options, const std::set<const gguf::Bank *> &resident) {
    if (resident.empty()) {
        return;
    }
    uint64_t bytes = 0;
    for (const gguf::Bank *bank : resident) {
        bytes += bank->bytes_per_expert * bank->n_expert;
    }
    options.note(cat(resident.size(), " expert tensors (", mib_up(bytes), " MiB, among them ",
                     (*resident.begin())->tensor, ") cannot be streamed and are held in memory"));
}

// Each has a buffer of its own, and a few are enough for reads of megabytes.
constexpr int kMostLoadingLanes = 8;

// Every tensor but the banks of experts (gguf/expert_layers.h), for llama_model_params::tensor_buft_overrides.
constexpr const char *kDenseTensors = "^(?!blk\\.[0-9]+\\.ffn_.+_(ch)?exps\\.weight$)";
constexpr const char *kBanks = "^blk\\.[0-9]+\\.ffn_.+_(ch)?exps\\.weight$";

// Reads all that is not an expert into the page cache.
void warm_up(const Options &options, const gguf::ModelFile &file, const gguf::ModelMapping &mapping) {
    uint64_t done = 0;
    for (const gguf::Tensor &tensor : file.tensors()) {
        if (file.is_bank(tensor.info.name)) {
            continue;
        }
        const io::ReadStatus status = mapping.sweep(tensor);
        if (!status.ok()) {
            throw Error(cat(options.model, ": cannot load the model: tensor ", tensor.info.name, ": ", status.error));
        }
        done += tensor.info.bytes;
        if (options.on_progress) {
            options.on_progress(static_cast<float>(done) / static_cast<float>(file.dense_bytes()));
        }
    }
}

}  // namespace

LoadedModel load_streamed(const Options &options, const gguf::ModelFile &file, backend::ExpertStore &store,
                          const Overrides &overrides, LoadMode mode) {
    io::BulkReader reader(std::min(options.io_threads, kMostLoadingLanes));
    std::set<const gguf::Bank *> resident;  // llama.cpp reads them: not placed in the expert buffer
    // The simulation asks llama.cpp about every weight, which it does not do where it is told where to put them.
    const bool maps = options.dense_weights != DenseWeights::kAnon;
    const auto mapping = maps && mode == LoadMode::kRead ? std::make_shared<gguf::ModelMapping>(file) : nullptr;
    if (options.dense_weights == DenseWeights::kWarm && mapping != nullptr) {
        warm_up(options, file, *mapping);
    }
    LoadedModel loaded;
    gguf::VirtualGguf source(file, reader, [&](const gguf::Tensor &tensor, const void *dst) {
        if (mapping != nullptr && dst == mapping->data(tensor)) {
            loaded.dense_bytes_mapped += tensor.info.bytes;
            return true;
        }
        const backend::BankRef *bank = store.bank(tensor.info.name);
        if (bank != nullptr && !bank->placed) {
            resident.insert(bank->bank);
        }
        return bank != nullptr && bank->placed;
    });
    const gguf::FilePtr stream = gguf::open_stream(source);

    llama_model_params params = model_params(options, overrides);
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.lazy_mode = LLAMA_LAZY_MODE_OFF;  // llama.cpp would map the stream
    params.no_alloc = mode == LoadMode::kMeasure;
    params.use_extra_bufts = options.repack && !maps;
    const llama_model_tensor_buft_override placement[] = {{kDenseTensors, backend::mapped_buffer_type()},
                                                          {nullptr, nullptr}};
    params.tensor_buft_overrides = mapping != nullptr ? placement : nullptr;
    if (mode == LoadMode::kRead) {
        report_progress(params, options);
    }
    {
        const backend::MappingScope mapping_scope(mapping);
        const backend::LoadScope scope(store);
        loaded.model.reset(llama_model_load_from_file_ptr(stream.get(), params));
    }
    const std::optional<std::string> refused = store.take_error();
    if (loaded.model == nullptr || !source.error().empty() || refused.has_value()) {
        const std::string reason = refused.has_value()       ? *refused
                                   : !source.error().empty() ? source.error()
                                                             : take_llama_errors();
        throw Error(cat(options.model, ": cannot load the model: ", reason));
    }
    if (mode == LoadMode::kRead) {
        loaded.dense_bytes_read = source.served_bytes();
        loaded.expert_bytes = source.skipped_bytes() - loaded.dense_bytes_mapped;
        note_resident_banks(options, resident);
    }
    return loaded;
}

ModelPtr load_plain(const Options &options, const gguf::ModelFile &file, const Overrides &overrides, LoadMode mode) {
    llama_model_params params = model_params(options, overrides);
    params.no_alloc = mode == LoadMode::kMeasure;
    params.load_mode = options.resident || params.no_alloc ? LLAMA_LOAD_MODE_NONE : LLAMA_LOAD_MODE_MMAP;
    const llama_model_tensor_buft_override placement[] = {{kBanks, backend::plain_buffer_type()}, {nullptr, nullptr}};
    params.tensor_buft_overrides = options.repack_experts ? nullptr : placement;
    if (mode == LoadMode::kRead) {
        report_progress(params, options);
    }
    ModelPtr model(llama_model_load_from_file(file.shards().front()->path().c_str(), params));
    if (model == nullptr) {
        throw Error(cat(options.model, ": cannot load the model: ", take_llama_errors()));
    }
    return model;
}

}  // namespace bmoe::engine
