// Tells a model's reasoning from its answer while it writes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/chat_template.h"

namespace bmoe::engine {

// Not thread-safe.
class AnswerParser {
  public:
    // What has become certain; may hold part of a UTF-8 character.
    struct Part {
        std::string reasoning;
        std::string content;
    };

    explicit AnswerParser(std::shared_ptr<const AnswerFormat> format);

    // The next text of the model.
    Part add(std::string_view text);
    // When the model has ended: what was held back because it could have been the start of a marker. Text that the format
    // knows nothing of counts as content.
    Part finish();

    bool ended() const { return ended_; }  // by a text that ends answers of this format
    ChatMessage message() const;           // so far, by the assistant

  private:
    Part read(bool is_partial);

    std::shared_ptr<const AnswerFormat> format_;
    std::string text_;
    std::string reasoning_;
    std::string content_;
    bool ended_ = false;
};

}  // namespace bmoe::engine
