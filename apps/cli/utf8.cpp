#include "cli/utf8.h"

#include <algorithm>

#include "base/utf8.h"

namespace bmoe::cli {

std::optional<size_t> find_invalid_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const size_t length = length_of_character(text[at]);
        if (length == 0 || length > text.size() - at) {
            return at;
        }
        const std::string_view character = text.substr(at, length);
        if (!std::all_of(character.begin() + 1, character.end(), continues_character) ||
            (length > 1 && !can_begin_character(character[0], character[1]))) {
            return at;
        }
        at += length;
    }
    return std::nullopt;
}

size_t count_characters(std::string_view text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

}  // namespace bmoe::cli
