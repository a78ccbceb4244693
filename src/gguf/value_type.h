// The types of metadata values in a GGUF header, by their ids in the file.
#pragma once

#include <cstdint>

namespace bmoe::gguf {

enum class ValueType : uint32_t {
    kUint8 = 0,
    kInt8 = 1,
    kUint16 = 2,
    kInt16 = 3,
    kUint32 = 4,
    kInt32 = 5,
    kFloat32 = 6,
    kBool = 7,
    kString = 8,  // uint64 length, bytes
    kArray = 9,   // uint32 element type, uint64 count, elements
    kUint64 = 10,
    kInt64 = 11,
    kFloat64 = 12,
};

// Bytes of one value; 0 for strings, arrays and ids that are not in use.
constexpr uint64_t value_size(ValueType type) {
    switch (type) {
        case ValueType::kUint8:
        case ValueType::kInt8:
        case ValueType::kBool:
            return 1;
        case ValueType::kUint16:
        case ValueType::kInt16:
            return 2;
        case ValueType::kUint32:
        case ValueType::kInt32:
        case ValueType::kFloat32:
            return 4;
        case ValueType::kUint64:
        case ValueType::kInt64:
        case ValueType::kFloat64:
            return 8;
        case ValueType::kString:
        case ValueType::kArray:
            return 0;
    }
    return 0;
}

}  // namespace bmoe::gguf
