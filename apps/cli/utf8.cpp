#include "cli/utf8.h"

#include <algorithm>

namespace bmoe::cli {

namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Bytes of the character that starts with `first`; 0 if none does.
size_t length_of(unsigned char first) {
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first < 0xE0) return 2;
    if (first >= 0xE0 && first < 0xF0) return 3;
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

// Whether `character`, of the right shape, is none: longer than it needs to be, a surrogate, or beyond the last one.
bool is_forbidden(std::string_view character) {
    const auto first = static_cast<unsigned char>(character[0]);
    const auto second = static_cast<unsigned char>(character.size() > 1 ? character[1] : 0);
    return (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) || (first == 0xF0 && second < 0x90) ||
           (first == 0xF4 && second >= 0x90);
}

}  // namespace

std::optional<size_t> find_invalid_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const size_t length = length_of(static_cast<unsigned char>(text[at]));
        if (length == 0 || length > text.size() - at) {
            return at;
        }
        const std::string_view character = text.substr(at, length);
        if (!std::all_of(character.begin() + 1, character.end(), is_continuation) || is_forbidden(character)) {
            return at;
        }
        at += length;
    }
    return std::nullopt;
}

size_t count_characters(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

}  // namespace bmoe::cli
