// The header of one GGUF file: metadata and tensor infos, checked against the file's size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bmoe::gguf {

struct KeyValue {
    std::string key;
    uint32_t type = 0;             // GGUF value type id
    std::vector<std::byte> value;  // the encoded value, as in the file (arrays: type, count, elements)
};

struct TensorInfo {
    std::string name;
    uint32_t type = 0;  // ggml type id
    uint32_t n_dims = 0;
    std::array<uint64_t, 4> ne = {1, 1, 1, 1};
    uint64_t offset = 0;  // bytes from the start of the file
    uint64_t bytes = 0;
};

struct Header {
    uint32_t version = 0;
    uint64_t alignment = 32;   // general.alignment, bytes
    uint64_t data_offset = 0;  // start of the tensor data, bytes from the start of the file
    std::vector<KeyValue> kv;
    std::vector<TensorInfo> tensors;

    const KeyValue *find(std::string_view key) const;
    // Empty if there is no such key or its value is not of that kind.
    std::optional<uint64_t> integer(std::string_view key) const;                // any integer type, non-negative
    std::optional<std::vector<uint64_t>> integers(std::string_view key) const;  // one, or an array; all non-negative
    std::optional<std::string> text(std::string_view key) const;
};

// Parses a header from the start of a file of `file_size` bytes, of which `bytes` holds the first part. Returns nothing
// if `bytes` is too short to hold the whole header (call again with more). Throws bmoe::Error with a sentence that
// names `path` and, where there is one, the key or tensor: bad magic, unsupported version, lengths and counts that
// cannot fit the file, unknown type, overflowing shape, misaligned or overlapping or out-of-file tensor data, duplicate
// names.
std::optional<Header> parse_header(std::span<const std::byte> bytes, uint64_t file_size, const std::string &path);

}  // namespace bmoe::gguf
