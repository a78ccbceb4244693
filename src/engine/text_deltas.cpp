#include "engine/text_deltas.h"

#include <algorithm>

#include "base/utf8.h"

namespace bmoe::engine {

namespace {

// Bytes at the beginning of `text`, which is not empty, that are part of one character; 0 if the first byte is of none.
size_t begin_of_character(std::string_view text) {
    const size_t length = length_of_character(text.front());
    size_t n = std::min<size_t>(length, 1);
    while (n < std::min(length, text.size()) && continues_character(text[n]) &&
           (n > 1 || can_begin_character(text[0], text[1]))) {
        ++n;
    }
    return n;
}

// Bytes at the end of `text` that a following byte could make a character of.
size_t incomplete_character(std::string_view text) {
    for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
        const std::string_view end = text.substr(text.size() - n);
        if (!continues_character(end.front())) {
            return begin_of_character(end) == n && length_of_character(end.front()) > n ? n : 0;
        }
    }
    return 0;
}

std::string valid_utf8(std::string_view text) {
    std::string valid;
    valid.reserve(text.size());
    while (!text.empty()) {
        const size_t n = begin_of_character(text);
        if (n > 0 && n == length_of_character(text.front())) {
            valid += text.substr(0, n);
        } else {
            valid += "\xEF\xBF\xBD";
        }
        text.remove_prefix(std::max<size_t>(n, 1));
    }
    return valid;
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
    std::string text = valid_utf8(std::string_view(held_).substr(0, length));
    held_.erase(0, length);
    return text;
}

std::string TextDeltas::finish() {
    std::string text = valid_utf8(held_);
    held_.clear();
    return text;
}

}  // namespace bmoe::engine
