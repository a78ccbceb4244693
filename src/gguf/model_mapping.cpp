#include "gguf/model_mapping.h"

namespace bmoe::gguf {

ModelMapping::ModelMapping(const ModelFile &model) : model_(model) {
    for (const auto &shard : model.shards()) {
        shards_.push_back(std::make_unique<io::FileMapping>(*shard));
    }
    for (const ExpertLayer &layer : model.expert_layers()) {
        for (const Bank &bank : layer.banks) {
            shards_[bank.shard]->close(bank.offset, bank.bytes_per_expert * bank.n_expert);
        }
    }
}

const std::byte *ModelMapping::find(std::string_view name) const {
    const Tensor *tensor = model_.find(name);
    return tensor != nullptr ? data(*tensor) : nullptr;
}

}  // namespace bmoe::gguf
