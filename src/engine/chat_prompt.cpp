#include "engine/chat_prompt.h"

#include "engine/chat_template.h"

namespace bmoe::engine {

std::string render_chat(const llama_model *model, std::span<const ChatMessage> messages) {
    return ChatTemplate(model).render(messages).prompt;
}

}  // namespace bmoe::engine
