// The model's own chat template: conversations into prompts.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/chat_message.h"
#include "llama.h"

namespace bmoe::engine {

struct AnswerFormat;

struct RenderedChat {
    std::string prompt;                // for Engine::tokenize() with_bos
    std::vector<llama_token> markers;  // control tokens whose text the format needs: GenerationRequest::markers
    std::shared_ptr<const AnswerFormat> format;  // of the answer, for AnswerParser
};

// Not thread-safe.
class ChatTemplate {
  public:
    // Of the model's metadata. The model must outlive it. Throws bmoe::Error if the model has none or it cannot be read.
    explicit ChatTemplate(const llama_model *model);
    // Of this text, without a vocabulary: RenderedChat::markers stays empty.
    explicit ChatTemplate(const std::string &source);
    ~ChatTemplate();
    ChatTemplate(const ChatTemplate &) = delete;
    ChatTemplate &operator=(const ChatTemplate &) = delete;

    // From now on the model is asked to answer without reasoning. False if the template has no way to do so: then nothing
    // changes. Throws bmoe::Error as render() does.
    bool turn_off_reasoning();

    // All of a conversation, ready for the answer. Throws bmoe::Error if the template refuses it.
    RenderedChat render(std::span<const ChatMessage> messages) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace bmoe::engine
