// UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace bmoe::cli {

// The offset of the first byte that belongs to no complete character; empty if `text` is UTF-8.
std::optional<size_t> find_invalid_utf8(std::string_view text);

// Characters (code points) of UTF-8 text.
size_t count_characters(std::string_view text);

}  // namespace bmoe::cli
