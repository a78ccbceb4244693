#include "engine/answer_parser.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "engine/answer_format.h"
#include "engine/skipped_text.h"

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

// Whether one of them is how the other begins.
bool is_of_one(const std::string &a, const std::string &b) { return a.starts_with(b) || b.starts_with(a); }

}  // namespace

AnswerParser::AnswerParser(std::shared_ptr<const AnswerFormat> format) : format_(std::move(format)) {}

bool AnswerParser::can_afford_to_parse() const {
    constexpr uint64_t kFreeNs = 100'000'000;
    return spent_ns_ < kFreeNs + (now_ns() - start_ns_) / 10;
}

AnswerParser::Part AnswerParser::add(std::string_view text) {
    start_ns_ = start_ns_ == 0 ? now_ns() : start_ns_;
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
    if (!can_afford_to_parse()) {
        return {};
    }
    const uint64_t before = now_ns();
    Part part;
    if (const auto parsed = parse(*format_, text_, true)) {
        part = {take_new(reasoning_, parsed->reasoning_content), take_new(content_, parsed->render_content(""))};
    }
    spent_ns_ += now_ns() - before;
    return part;
}

AnswerParser::Part AnswerParser::finish() {
    Part last;
    std::string rest;
    const auto parsed = parse(*format_, text_, false);
    if (parsed && is_of_one(reasoning_, parsed->reasoning_content) && is_of_one(content_, parsed->render_content(""))) {
        last = {take_new(reasoning_, parsed->reasoning_content), take_new(content_, parsed->render_content(""))};
        const SkippedText skipped = skipped_text(*format_, text_);
        broke_format_ = !skipped.text.empty();
        if (reasoning_.empty() && content_.empty()) {
            rest = text_;
        } else if (skipped.begun_in_reasoning) {
            last.reasoning += skipped.begun;
            reasoning_ += skipped.begun;
            rest = skipped.text;
        } else {
            rest = skipped.begun + skipped.text;
        }
    } else {
        rest = not_handed_out();
        broke_format_ = rest.find_first_not_of(" \t\r\n") != std::string::npos;
    }
    last.content += rest;
    content_ += rest;
    return last;
}

// The text behind what was handed out. Each part is looked for as early as it can be: what is handed out twice is better than
// what is lost.
std::string AnswerParser::not_handed_out() const {
    size_t end = 0;
    for (const std::string &part : {reasoning_, content_}) {
        const size_t at = text_.find(part, end);
        if (at == std::string::npos) {
            return text_;
        }
        end = at + part.size();
    }
    return text_.substr(end);
}

ChatMessage AnswerParser::message() const { return {"assistant", content_, reasoning_}; }

}  // namespace bmoe::engine
