// A generated answer in deltas for a program: reasoning told apart, characters whole, ended by the chat format or a stop text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/answer_parser.h"
#include "engine/chat_template.h"
#include "engine/text_deltas.h"

namespace bmoe::engine {

// Not thread-safe.
class AnswerStream {
  public:
    struct Delta {
        std::string reasoning;
        std::string text;
    };

    // `chat`: of the prompt, if it was messages; else the answer is text and nothing else. `stops`: see TextDeltas; they are
    // looked for in the text only.
    AnswerStream(const std::optional<RenderedChat> &chat, std::vector<std::string> stops);

    // The next text of the model. Not after ended().
    Delta add(std::string_view piece);
    // What is still held back when nothing follows any more.
    Delta finish();

    bool ended() const { return text_.stopped() || (parser_ && parser_->ended()); }
    // After finish(). See kBrokenFormat.
    bool broke_format() const { return parser_ && parser_->broke_format(); }
    const std::string &stop() const { return text_.stop(); }  // that ended the answer; empty: none did

  private:
    Delta whole(const AnswerParser::Part &part);

    std::optional<AnswerParser> parser_;
    TextDeltas reasoning_;
    TextDeltas text_;
};

}  // namespace bmoe::engine
