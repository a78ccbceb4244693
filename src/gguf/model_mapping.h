// A model's files as memory: its dense tensors in the page cache.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/model_file.h"
#include "io/file_mapping.h"

namespace bmoe::gguf {

class ModelMapping {
  public:
    // Maps every shard of `model`, which must outlive it, without the banks of experts. Throws bmoe::Error.
    explicit ModelMapping(const ModelFile &model);

    // The data of the tensor of this name, info.bytes of it, aligned as in its file; nullptr if the model has none. That of a
    // bank must not be touched.
    const std::byte *find(std::string_view name) const;
    const std::byte *data(const Tensor &tensor) const { return shards_[tensor.shard]->data() + tensor.info.offset; }

    // Reads the tensor's data into the page cache and maps its pages.
    io::ReadStatus sweep(const Tensor &tensor) const {
        return shards_[tensor.shard]->sweep(tensor.info.offset, tensor.info.bytes);
    }

  private:
    const ModelFile &model_;
    std::vector<std::unique_ptr<io::FileMapping>> shards_;
};

}  // namespace bmoe::gguf
