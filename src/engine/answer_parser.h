// Tells a model's reasoning from its answer while it writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/chat_template.h"

namespace bmoe::engine {

// For the user, where an answer broke its format.
constexpr const char *kBrokenFormat =
    "the answer breaks the model's chat format; what follows the break is shown as the model wrote it";

// Not thread-safe.
class AnswerParser {
  public:
    // What has become certain; may hold part of a UTF-8 character.
    struct Part {
        std::string reasoning;
        std::string content;
    };

    explicit AnswerParser(std::shared_ptr<const AnswerFormat> format);

    // The next text of the model. llama.cpp's parser reads an answer from its start each time, so a fast model's long one is
    // parsed less often: a tenth of the time is spent on it.
    Part add(std::string_view text);
    // When the model has ended: what was held back because it could have been the start of a marker. Where the answer breaks its
    // format, all that was not handed out yet counts as content, as it was written: also text that llama.cpp's parser reads over.
    Part finish();

    bool ended() const { return ended_; }                // by a text that ends answers of this format
    bool broke_format() const { return broke_format_; }  // after finish()
    ChatMessage message() const;                         // so far, by the assistant

  private:
    std::string not_handed_out() const;
    bool can_afford_to_parse() const;

    std::shared_ptr<const AnswerFormat> format_;
    std::string text_;
    std::string reasoning_;
    std::string content_;
    bool ended_ = false;
    bool broke_format_ = false;
    uint64_t start_ns_ = 0;  // of the answer; 0 before it
    uint64_t spent_ns_ = 0;  // on parsing
};

}  // namespace bmoe::engine
