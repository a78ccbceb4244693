#include "engine/answer_stream.h"

#include <utility>

namespace bmoe::engine {

AnswerStream::AnswerStream(const std::optional<RenderedChat> &chat, std::vector<std::string> stops)
    : text_(std::move(stops)) {
    if (chat) {
        parser_.emplace(chat->format);
    }
}

AnswerStream::Delta AnswerStream::add(std::string_view piece) {
    return parser_ ? whole(parser_->add(piece)) : Delta{{}, text_.add(piece)};
}

AnswerStream::Delta AnswerStream::finish() {
    Delta last;
    if (parser_ && !text_.stopped()) {
        last = whole(parser_->finish());
    }
    last.reasoning += reasoning_.finish();
    last.text += text_.finish();
    return last;
}

AnswerStream::Delta AnswerStream::whole(const AnswerParser::Part &part) {
    Delta delta;
    delta.reasoning = reasoning_.add(part.reasoning);
    if (!part.content.empty()) {
        delta.text = text_.add(part.content);
    }
    return delta;
}

}  // namespace bmoe::engine
