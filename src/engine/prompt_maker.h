// A request's prompt in tokens: a text, or messages in the model's chat template.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/chat_template.h"
#include "engine/engine.h"

namespace bmoe::engine {

struct Prompt {
    std::vector<llama_token> tokens;
    std::optional<RenderedChat> chat;  // of messages
};

// Not thread-safe; the engine must outlive it.
class PromptMaker {
  public:
    explicit PromptMaker(Engine &engine) : engine_(engine) {}

    // From now on, as ChatTemplate::turn_off_reasoning(). Throws bmoe::Error as of_messages() does.
    bool turn_off_reasoning() { return chat_template().turn_off_reasoning(); }

    // As Engine::tokenize().
    Prompt of_text(const std::string &text);
    // The same; throws bmoe::Error if the model has no chat template, or that refuses the messages.
    Prompt of_messages(std::span<const ChatMessage> messages);

  private:
    ChatTemplate &chat_template();

    Engine &engine_;
    std::unique_ptr<ChatTemplate> chat_template_;  // made when it is first needed
};

}  // namespace bmoe::engine
