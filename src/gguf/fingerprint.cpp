#include "gguf/fingerprint.h"

#include "base/fnv1a.h"

namespace bmoe::gguf {

uint64_t fingerprint(const ModelFile &model) {
    Fnv1a hash;
    hash.add(uint64_t{model.shards().size()});
    for (const auto &shard : model.shards()) {
        hash.add(shard->size());
    }
    hash.add(uint64_t{model.metadata().kv.size()});
    for (const KeyValue &entry : model.metadata().kv) {
        hash.add(entry.key);
        hash.add(uint64_t{entry.type});
        hash.add(uint64_t{entry.value.size()});
        hash.add(entry.value);
    }
    for (const Tensor &tensor : model.tensors()) {
        hash.add(tensor.info.name);
        hash.add(uint64_t{tensor.info.type});
        for (const uint64_t n : tensor.info.ne) {
            hash.add(n);
        }
        hash.add(tensor.info.offset);
        hash.add(uint64_t{tensor.shard});
    }
    return hash.value();
}

}  // namespace bmoe::gguf
