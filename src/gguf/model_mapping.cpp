#include "gguf/model_mapping.h"

namespace bmoe::gguf {

ModelMapping::ModelMapping(const ModelFile &model) : model_(model) {
    for (const auto &shard : model.shards()) {
        shards_.push_back(std::make_unique<io::FileMapping>(*shard));
    }
}

const std::byte *ModelMapping::find(std::string_view name) const {
    const Tensor *tensor = model_.find(name);
    return tensor != nullptr ? data(*tensor) : nullptr;
}

}  // namespace bmoe::gguf
