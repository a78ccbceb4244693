#include "engine/answer_parser.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "engine/answer_format.h"

namespace bmoe::engine {

namespace {

std::optional<common_chat_msg> parse(const AnswerFormat &format, const std::string &text, bool is_partial) {
    try {
        return common_chat_parse(text, is_partial, format.parser);
    } catch (const std::exception &) {
        return std::nullopt;  // not of this format
    }
}

// What `now` has beyond `shown`, which then is the same. Text that was shown stays shown: a parser that takes some back gives
// nothing new until it has caught up.
std::string take_new(std::string &shown, const std::string &now) {
    if (!now.starts_with(shown)) {
        return {};
    }
    std::string added = now.substr(shown.size());
    shown = now;
    return added;
}

}  // namespace

AnswerParser::AnswerParser(std::shared_ptr<const AnswerFormat> format) : format_(std::move(format)) {}

AnswerParser::Part AnswerParser::add(std::string_view text) {
    // A stop can begin in an earlier piece.
    size_t longest = 0;
    for (const std::string &stop : format_->stops) {
        longest = std::max(longest, stop.size());
    }
    const size_t from = text_.size() - std::min(text_.size(), longest);
    text_ += text;
    for (const std::string &stop : format_->stops) {
        if (const size_t at = text_.find(stop, from); at != std::string::npos) {
            text_.resize(at);
            ended_ = true;
        }
    }
    return read(true);
}

AnswerParser::Part AnswerParser::finish() {
    Part last = read(false);
    if (reasoning_.empty() && content_.empty()) {
        content_ = text_;
        last.content = text_;
    }
    return last;
}

AnswerParser::Part AnswerParser::read(bool is_partial) {
    auto parsed = parse(*format_, text_, is_partial);
    if (!parsed && !is_partial) {
        parsed = parse(*format_, text_, true);  // the model was cut off
    }
    if (!parsed) {
        return {};
    }
    return {take_new(reasoning_, parsed->reasoning_content), take_new(content_, parsed->render_content(""))};
}

ChatMessage AnswerParser::message() const { return {"assistant", content_, reasoning_}; }

}  // namespace bmoe::engine
