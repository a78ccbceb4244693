// The shape of UTF-8 characters.
#pragma once

#include <cstddef>

namespace bmoe {

// Of a character, but not its first byte.
inline bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Bytes of the character that begins with `lead`; 0 if none does.
inline size_t length_of_character(char lead) {
    const auto byte = static_cast<unsigned char>(lead);
    if (byte < 0x80) return 1;
    if (byte < 0xC2 || byte > 0xF4) return 0;
    return byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Whether a character can begin with these two bytes: not those that have a shorter form, surrogates, or what is beyond
// U+10FFFF.
inline bool can_begin_character(char lead, char second) {
    const auto byte = static_cast<unsigned char>(second);
    switch (static_cast<unsigned char>(lead)) {
        case 0xE0:
            return byte >= 0xA0;
        case 0xED:
            return byte < 0xA0;
        case 0xF0:
            return byte >= 0x90;
        case 0xF4:
            return byte < 0x90;
        default:
            return true;
    }
}

}  // namespace bmoe
