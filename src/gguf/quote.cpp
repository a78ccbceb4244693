#include "gguf/quote.h"

namespace bmoe::gguf {

std::ostream &operator<<(std::ostream &out, Quoted quoted) {
    constexpr size_t kLongest = 120;
    constexpr std::string_view kHex = "0123456789abcdef";
    out << '\'';
    for (const char c : quoted.name.substr(0, kLongest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            out << "\\x" << kHex[byte >> 4] << kHex[byte & 15];
        } else {
            out << c;
        }
    }
    return out << (quoted.name.size() > kLongest ? "...'" : "'");
}

}  // namespace bmoe::gguf
