// Sizes of ggml's tensor types, so that a GGUF can be laid out without linking ggml. A test holds the table against
// ggml's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace bmoe::gguf {

struct TypeTraits {
    std::string_view name;  // as ggml_type_name prints it, e.g. "q4_K"
    uint32_t block = 0;     // weights per block
    uint32_t block_bytes = 0;
};

// Empty for an id that ggml has retired or never had.
std::optional<TypeTraits> type_traits(uint32_t type);

}  // namespace bmoe::gguf
