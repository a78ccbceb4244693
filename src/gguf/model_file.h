// A model on disk: one GGUF or all its shards, and where its routed experts lie.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gguf/expert_layers.h"
#include "gguf/header.h"
#include "gguf/shards.h"
#include "gguf/tensor.h"
#include "io/posix_file.h"

namespace bmoe::gguf {

class ModelFile {
  public:
    // Opens the model that `path` belongs to; `path` may be any shard of a split model ("-00001-of-00003.gguf"). Every
    // shard is opened with `mode` and checked: all present, numbered right, of one model (same architecture and split
    // counts, no tensor twice, as many tensors as shard 1 promises). Throws bmoe::Error naming the file.
    static std::unique_ptr<ModelFile> open(const std::string &path, io::DirectIo mode);

    // Of shards that are open already. Throws bmoe::Error.
    explicit ModelFile(std::vector<Shard> shards);

    const std::vector<std::unique_ptr<io::RandomAccessFile>> &shards() const { return shards_; }
    const Header &metadata() const { return metadata_; }             // shard 1's
    const std::vector<Tensor> &tensors() const { return tensors_; }  // by shard, then as in its header
    const Tensor *find(std::string_view name) const;
    const std::vector<ExpertLayer> &expert_layers() const { return layers_; }  // by block, "exps" before "chexps"
    bool is_bank(std::string_view tensor) const { return banks_.count(tensor) > 0; }  // of routed experts

    std::string architecture() const;
    uint32_t expert_used_count() const;  // largest top-k of any layer; 0 for a model without experts
    // Another top-k for all layers, from now on. Throws bmoe::Error if the model has not that many experts, or none at all, or
    // a top-k of its own for each layer.
    void override_expert_used_count(uint32_t count);
    uint32_t own_expert_used_count() const;                  // the metadata's, whatever was set
    uint32_t most_experts() const;                           // of a layer; 0 without experts
    std::string expert_used_key() const;                     // the metadata key that holds it
    uint64_t file_bytes() const;                             // all shards
    uint64_t expert_bytes() const;                           // all banks
    uint64_t dense_bytes() const;                            // all other tensors
    bool is_direct() const;                                  // every shard is read directly
    const std::string &io_note() const { return io_note_; }  // why not, one line; empty if direct or not asked for

  private:
    void check_expert_count() const;

    std::vector<std::unique_ptr<io::RandomAccessFile>> shards_;
    Header metadata_;
    std::vector<Tensor> tensors_;
    std::vector<ExpertLayer> layers_;
    std::unordered_map<std::string_view, size_t> index_;  // name to place in tensors_
    std::unordered_set<std::string_view> banks_;          // names in layers_
    std::string io_note_;
    uint32_t expert_used_override_ = 0;  // 0: the metadata's
};

}  // namespace bmoe::gguf
