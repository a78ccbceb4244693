// Names of the files of a split model: "<prefix>-00001-of-00003.gguf".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bmoe::gguf {

struct ShardName {
    std::string prefix;   // with the folder, without the "-" before the number
    uint32_t number = 0;  // 1 .. count
    uint32_t count = 0;

    // The path of shard `other` (1 .. count) of the same model.
    std::string sibling(uint32_t other) const;
};

// Empty if `path` is not named like a shard.
std::optional<ShardName> parse_shard_name(const std::string &path);

}  // namespace bmoe::gguf
