#include "gguf/model_file.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "gguf/damaged.h"
#include "gguf/quote.h"

namespace bmoe::gguf {

std::unique_ptr<ModelFile> ModelFile::open(const std::string &path, io::DirectIo mode) {
    return std::make_unique<ModelFile>(open_shards(path, mode));
}

ModelFile::ModelFile(std::vector<Shard> shards) {
    size_t n_tensors = 0;
    for (const Shard &shard : shards) {
        n_tensors += shard.header.tensors.size();
    }
    tensors_.reserve(n_tensors);  // index_ points into it
    for (Shard &shard : shards) {
        const auto number = static_cast<uint32_t>(shards_.size());
        for (const TensorInfo &info : shard.header.tensors) {
            tensors_.push_back({info, number});
            const auto [twin, is_new] = index_.emplace(tensors_.back().info.name, tensors_.size() - 1);
            if (!is_new) {
                throw Error(cat(shard.file->path(), ": tensor ", quote(info.name), " is already in ",
                                shards_[tensors_[twin->second].shard]->path(), "; the files are of different models"));
            }
        }
        if (io_note_.empty()) {
            io_note_ = shard.io_note;
        }
        shards_.push_back(std::move(shard.file));
    }
    metadata_ = std::move(shards.front().header);
    if (architecture().empty()) {
        throw Error(
            cat(shards_.front()->path(), ": has no metadata key 'general.architecture'; it is not a language model"));
    }
    layers_ = find_expert_layers(tensors_, shards_.front()->path());
    for (const ExpertLayer &layer : layers_) {
        for (const Bank &bank : layer.banks) {
            banks_.insert(bank.tensor);
        }
    }
    check_expert_count();
}

const Tensor *ModelFile::find(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::string ModelFile::architecture() const { return metadata_.text("general.architecture").value_or(""); }

std::string ModelFile::expert_used_key() const { return architecture() + ".expert_used_count"; }

uint32_t ModelFile::expert_used_count() const {
    return expert_used_override_ != 0 ? expert_used_override_ : own_expert_used_count();
}

uint32_t ModelFile::own_expert_used_count() const {
    if (layers_.empty()) {
        return 0;
    }
    const auto counts = metadata_.integers(expert_used_key());
    return static_cast<uint32_t>(*std::max_element(counts->begin(), counts->end()));
}

void ModelFile::override_expert_used_count(uint32_t count) {
    const std::string &path = shards_.front()->path();
    if (layers_.empty()) {
        throw Error(
            cat(path, ": has no experts, so a token cannot use ", count, " of them; leave out --n-expert-used"));
    }
    if (!metadata_.integer(expert_used_key())) {
        throw Error(cat(path, ": metadata key ", quote(expert_used_key()),
                        " holds a count for each layer, which one number cannot replace; leave out --n-expert-used"));
    }
    if (count < 1 || count > most_experts()) {
        throw Error(cat(path, ": a token cannot use ", count, " of the ", most_experts(),
                        " experts of a layer; give --n-expert-used a number from 1 to ", most_experts()));
    }
    expert_used_override_ = count;
}

uint32_t ModelFile::most_experts() const {
    uint32_t most = 0;
    for (const ExpertLayer &layer : layers_) {
        most = std::max(most, layer.n_expert);
    }
    return most;
}

void ModelFile::check_expert_count() const {
    if (layers_.empty()) {
        return;
    }
    const uint32_t n_expert = most_experts();
    const std::string key = expert_used_key();
    const auto counts = metadata_.integers(key);
    if (!counts || counts->empty()) {
        throw Error(cat(shards_.front()->path(), ": holds experts, but its metadata key ", quote(key),
                        " is missing or not a count; convert the model again"));
    }
    const uint64_t used = *std::max_element(counts->begin(), counts->end());
    if (used < 1 || used > n_expert) {
        throw Error(cat(shards_.front()->path(), ": metadata key ", quote(key), " says that a token uses ", used,
                        " of ", n_expert, " experts", kDamaged));
    }
}

uint64_t ModelFile::file_bytes() const {
    uint64_t sum = 0;
    for (const auto &shard : shards_) {
        sum += shard->size();
    }
    return sum;
}

uint64_t ModelFile::expert_bytes() const {
    uint64_t sum = 0;
    for (const ExpertLayer &layer : layers_) {
        sum += layer.bytes_per_expert() * layer.n_expert;
    }
    return sum;
}

uint64_t ModelFile::dense_bytes() const {
    uint64_t sum = 0;
    for (const Tensor &tensor : tensors_) {
        sum += tensor.info.bytes;
    }
    return sum - expert_bytes();
}

bool ModelFile::is_direct() const {
    return std::all_of(shards_.begin(), shards_.end(), [](const auto &shard) { return shard->is_direct(); });
}

}  // namespace bmoe::gguf
