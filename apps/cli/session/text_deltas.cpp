#include "cli/session/text_deltas.h"

#include <algorithm>

namespace bmoe::cli {

namespace {

// Bytes of the UTF-8 character that begins with `lead`; 1 if none does.
size_t length_of_character(unsigned char lead) {
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    return lead >= 0xF0 && lead <= 0xF4 ? 4 : 1;
}

// Bytes at the end of `text` that a following byte could make a character of.
size_t incomplete_character(std::string_view text) {
    for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
        const auto byte = static_cast<unsigned char>(text[text.size() - n]);
        if ((byte & 0xC0U) != 0x80U) {
            return length_of_character(byte) > n ? n : 0;
        }
    }
    return 0;
}

// Bytes at the end of `text` that begin `stop`, but not all of it.
size_t begun(std::string_view text, std::string_view stop) {
    for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
        if (text.substr(text.size() - n) == stop.substr(0, n)) {
            return n;
        }
    }
    return 0;
}

}  // namespace

bool TextDeltas::find_stop() {
    size_t first = std::string::npos;
    for (const std::string &stop : stops_) {
        const size_t at = held_.find(stop);
        if (at < first) {
            first = at;
            stop_ = stop;
        }
    }
    held_.resize(std::min(first, held_.size()));
    return stopped();
}

size_t TextDeltas::certain() const {
    size_t uncertain = incomplete_character(held_);
    for (const std::string &stop : stops_) {
        uncertain = std::max(uncertain, begun(held_, stop));
    }
    return held_.size() - uncertain;
}

std::string TextDeltas::add(std::string_view piece) {
    held_ += piece;
    if (find_stop()) {
        return finish();
    }
    const size_t length = certain();
    std::string text = held_.substr(0, length);
    held_.erase(0, length);
    return text;
}

std::string TextDeltas::finish() {
    std::string text;
    text.swap(held_);
    return text;
}

}  // namespace bmoe::cli
