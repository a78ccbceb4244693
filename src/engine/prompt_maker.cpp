#include "engine/prompt_maker.h"

namespace bmoe::engine {

Prompt PromptMaker::of_text(const std::string &text) { return {engine_.tokenize(text, true), std::nullopt}; }

ChatTemplate &PromptMaker::chat_template() {
    if (chat_template_ == nullptr) {
        chat_template_ = std::make_unique<ChatTemplate>(engine_.model());
    }
    return *chat_template_;
}

Prompt PromptMaker::of_messages(std::span<const ChatMessage> messages) {
    RenderedChat chat = chat_template().render(messages);
    std::vector<llama_token> tokens = engine_.tokenize(chat.prompt, true);
    return {std::move(tokens), std::move(chat)};
}

}  // namespace bmoe::engine
