#include "gguf/header.h"

#include <algorithm>
#include <cstring>

#include "gguf/value_type.h"

namespace bmoe::gguf {
namespace {

template <typename T>
T load(std::span<const std::byte> bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

template <typename T>
std::optional<uint64_t> load_non_negative(std::span<const std::byte> bytes) {
    const T value = load<T>(bytes);
    if (value < T{0}) {
        return std::nullopt;
    }
    return static_cast<uint64_t>(value);
}

std::optional<uint64_t> load_integer(ValueType type, std::span<const std::byte> bytes) {
    if (bytes.size() < value_size(type)) {
        return std::nullopt;
    }
    switch (type) {
        case ValueType::kUint8:
            return load<uint8_t>(bytes);
        case ValueType::kInt8:
            return load_non_negative<int8_t>(bytes);
        case ValueType::kUint16:
            return load<uint16_t>(bytes);
        case ValueType::kInt16:
            return load_non_negative<int16_t>(bytes);
        case ValueType::kUint32:
            return load<uint32_t>(bytes);
        case ValueType::kInt32:
            return load_non_negative<int32_t>(bytes);
        case ValueType::kUint64:
            return load<uint64_t>(bytes);
        case ValueType::kInt64:
            return load_non_negative<int64_t>(bytes);
        default:
            return std::nullopt;
    }
}

}  // namespace

const KeyValue *Header::find(std::string_view key) const {
    const auto found = std::find_if(kv.begin(), kv.end(), [&](const KeyValue &each) { return each.key == key; });
    return found == kv.end() ? nullptr : &*found;
}

std::optional<uint64_t> Header::integer(std::string_view key) const {
    const KeyValue *found = find(key);
    return found == nullptr ? std::nullopt : load_integer(ValueType{found->type}, found->value);
}

std::optional<std::vector<uint64_t>> Header::integers(std::string_view key) const {
    const KeyValue *found = find(key);
    if (found == nullptr) {
        return std::nullopt;
    }
    ValueType type{found->type};
    std::span<const std::byte> bytes = found->value;
    uint64_t count = 1;
    if (type == ValueType::kArray) {
        if (bytes.size() < sizeof(uint32_t) + sizeof(uint64_t)) {
            return std::nullopt;
        }
        type = ValueType{load<uint32_t>(bytes)};
        count = load<uint64_t>(bytes.subspan(sizeof(uint32_t)));
        bytes = bytes.subspan(sizeof(uint32_t) + sizeof(uint64_t));
    }
    const uint64_t size = value_size(type);
    if (size == 0 || count > bytes.size() / size) {
        return std::nullopt;
    }
    std::vector<uint64_t> values;
    for (uint64_t i = 0; i < count; ++i) {
        const auto value = load_integer(type, bytes.subspan(i * size));
        if (!value) {
            return std::nullopt;
        }
        values.push_back(*value);
    }
    return values;
}

std::optional<std::string> Header::text(std::string_view key) const {
    const KeyValue *found = find(key);
    if (found == nullptr || ValueType{found->type} != ValueType::kString || found->value.size() < sizeof(uint64_t)) {
        return std::nullopt;
    }
    const auto text = std::span(found->value).subspan(sizeof(uint64_t));
    return std::string(reinterpret_cast<const char *>(text.data()), text.size());
}

}  // namespace bmoe::gguf
