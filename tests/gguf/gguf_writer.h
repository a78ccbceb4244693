// Writes small GGUF files for tests, well formed or, with the overrides, not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value_type.h"

namespace bmoe::gguf::test {

// Little-endian bytes of values, strings with their length.
class Bytes {
  public:
    template <typename T>
    Bytes &number(T value) {
        const auto *raw = reinterpret_cast<const std::byte *>(&value);
        data.insert(data.end(), raw, raw + sizeof(T));
        return *this;
    }
    Bytes &string(std::string_view text) { return number(uint64_t{text.size()}).raw(text); }
    Bytes &raw(std::string_view text) {
        const auto *begin = reinterpret_cast<const std::byte *>(text.data());
        data.insert(data.end(), begin, begin + text.size());
        return *this;
    }
    Bytes &pad(uint64_t alignment) {
        data.resize((data.size() + alignment - 1) / alignment * alignment);
        return *this;
    }
    std::vector<std::byte> data;
};

struct TensorSpec {
    std::string name;
    uint32_t type = 0;
    std::vector<uint64_t> ne;
    std::optional<uint64_t> offset;  // written instead of the right one
};

class GgufWriter {
  public:
    GgufWriter &kv(std::string key, ValueType type, Bytes value);
    GgufWriter &text(std::string key, std::string_view value);
    GgufWriter &u16(std::string key, uint16_t value);
    GgufWriter &u32(std::string key, uint32_t value);
    GgufWriter &i32(std::string key, int32_t value);
    GgufWriter &i32_array(std::string key, const std::vector<int32_t> &values);
    GgufWriter &string_array(std::string key, const std::vector<std::string> &values);
    GgufWriter &tensor(std::string name, uint32_t type, std::vector<uint64_t> ne, std::optional<uint64_t> offset = {});

    // The file; the data of a tensor is tensor_data(name), padding is zeros.
    std::vector<std::byte> bytes() const;
    void write(const std::string &path) const;

    std::string magic = "GGUF";
    uint32_t version = 3;
    uint32_t alignment = 32;            // as used; the key is the caller's to add
    std::optional<uint64_t> n_kv;       // written instead of the right one
    std::optional<uint64_t> n_tensors;  // written instead of the right one
    uint64_t trailing_zeros = 0;        // bytes after the last tensor
    std::vector<TensorSpec> tensors;

  private:
    struct Entry {
        std::string key;
        ValueType type;
        Bytes value;
    };
    std::vector<Entry> kv_;
};

uint64_t tensor_size(const TensorSpec &spec);  // bytes; 0 for what has no size

// Bytes that depend on the name and the position.
std::vector<std::byte> tensor_data(std::string_view name, uint64_t size);

void write_bytes(const std::string &path, const std::vector<std::byte> &bytes);
std::vector<std::byte> read_bytes(const std::string &path);

}  // namespace bmoe::gguf::test
