#include "gguf/shards.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "gguf/damaged.h"
#include "gguf/quote.h"
#include "gguf/read_header.h"
#include "gguf/shard_name.h"

namespace bmoe::gguf {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSplitNo = "split.no";  // counts from 0, file names count from 1
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kTensorCount = "split.tensors.count";

Shard open_shard(const std::string &path, io::DirectIo mode) {
    io::OpenedFile opened = io::open_posix_file(path, mode);
    Header header = read_header(*opened.file);
    return {std::move(opened.file), std::move(header), std::move(opened.note)};
}

// The value of a split key, empty if the file has no such key.
std::optional<uint64_t> split_value(const Shard &shard, std::string_view key) {
    if (shard.header.find(key) == nullptr) {
        return std::nullopt;
    }
    const auto value = shard.header.integer(key);
    if (!value) {
        throw Error(cat(shard.file->path(), ": metadata key ", quote(key), " is not a non-negative integer", kDamaged));
    }
    return value;
}

void check_number(const Shard &shard, uint32_t number, uint32_t count) {
    const auto no = split_value(shard, kSplitNo);
    const auto has = split_value(shard, kSplitCount);
    if (!no || !has) {
        throw Error(cat(shard.file->path(), ": is expected to be shard ", number, " of ", count, ", but has no key ",
                        quote(no ? kSplitCount : kSplitNo), "; put the shard of this model there"));
    }
    if (*no + 1 != number || *has != count) {
        throw Error(cat(shard.file->path(), ": is named as shard ", number, " of ", count, ", but its metadata says ",
                        kSplitNo, " ", *no, " (counted from 0) and ", kSplitCount, " ", *has,
                        "; the file was renamed or belongs to another model"));
    }
}

// The names from which those of the other shards can be made: the path as given, then what it links to.
std::vector<ShardName> shard_names(const Shard &shard, uint32_t count) {
    const std::string &path = shard.file->path();
    std::vector<ShardName> names;
    if (auto given = parse_shard_name(path)) {
        check_number(shard, given->number, given->count);
        names.push_back(std::move(*given));
    }
    std::error_code failed;
    const fs::path target = fs::canonical(path, failed);
    const auto no = split_value(shard, kSplitNo);
    if (!failed) {
        auto linked = parse_shard_name(target.string());
        if (linked && no && linked->number == *no + 1 && linked->count == count) {
            names.push_back(std::move(*linked));
        }
    }
    if (names.empty()) {
        throw Error(cat(path, ": is one of ", count, " shards of a model, but is not named like one (\"",
                        "name-00001-of-", ShardName{"", 1, count}.sibling(1).substr(10, 5),
                        ".gguf\"), so the others cannot be found; give the files their original names"));
    }
    return names;
}

std::string find_sibling(const std::vector<ShardName> &names, uint32_t number) {
    for (const ShardName &name : names) {
        std::string path = name.sibling(number);
        std::error_code failed;
        if (fs::exists(path, failed)) {
            return path;
        }
    }
    throw Error(cat(names.front().sibling(number), ": shard ", number, " of ", names.front().count,
                    " is missing; all shards of a model must lie in one folder"));
}

void check_same_text(const Shard &first, const Shard &other, std::string_view key) {
    const auto expected = first.header.text(key);
    const auto found = other.header.text(key);  // usually only shard 1 has metadata
    if (expected && found && *expected != *found) {
        throw Error(cat(other.file->path(), ": has ", key, " ", quote(*found), ", but ", first.file->path(), " has ",
                        quote(*expected), "; the files are of different models"));
    }
}

void check_tensor_count(const std::vector<Shard> &shards) {
    const Shard &first = shards.front();
    const auto promised = split_value(first, kTensorCount);
    if (!promised) {
        throw Error(cat(first.file->path(), ": is a shard without the key ", quote(kTensorCount),
                        "; split the model again with llama-gguf-split"));
    }
    uint64_t total = 0;
    for (const Shard &shard : shards) {
        total += shard.header.tensors.size();
        const auto count = split_value(shard, kTensorCount);
        if (count && *count != *promised) {
            throw Error(cat(shard.file->path(), ": says the model has ", *count, " tensors, but ", first.file->path(),
                            " says ", *promised, "; the files are of different models"));
        }
    }
    if (total != *promised) {
        throw Error(cat(first.file->path(), ": promises ", *promised, " tensors, but the ", shards.size(),
                        " shards hold ", total, "; one of them is of another model, or damaged: download it again"));
    }
}

}  // namespace

std::vector<Shard> open_shards(const std::string &path, io::DirectIo mode) {
    constexpr uint64_t kMostShards = 65535;  // five digits, uint16 in the metadata
    Shard given = open_shard(path, mode);
    const uint64_t count = split_value(given, kSplitCount).value_or(1);
    if (count <= 1) {
        std::vector<Shard> one;
        one.push_back(std::move(given));
        return one;
    }
    if (count > kMostShards) {
        throw Error(cat(path, ": claims to be one of ", count, " shards", kDamaged));
    }

    const std::vector<ShardName> names = shard_names(given, static_cast<uint32_t>(count));
    std::vector<Shard> shards(count);
    shards[names.front().number - 1] = std::move(given);
    for (uint32_t number = 1; number <= count; ++number) {
        Shard &shard = shards[number - 1];
        if (!shard.file) {
            shard = open_shard(find_sibling(names, number), mode);
        }
        check_number(shard, number, static_cast<uint32_t>(count));
    }
    for (const Shard &shard : shards) {
        check_same_text(shards.front(), shard, "general.architecture");
        check_same_text(shards.front(), shard, "general.name");
    }
    check_tensor_count(shards);
    return shards;
}

}  // namespace bmoe::gguf
