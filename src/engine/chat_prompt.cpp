#include "engine/chat_prompt.h"

#include <exception>

#include "base/error.h"
#include "chat.h"
#include "llama.h"

namespace bmoe::engine {

std::string render_chat(const llama_model *model, std::span<const ChatMessage> messages) {
    if (llama_model_chat_template(model, nullptr) == nullptr) {
        throw Error(
            "the model has no chat template (tokenizer.chat_template); give plain text instead of chat messages");
    }
    try {
        const common_chat_templates_ptr templates = common_chat_templates_init(model, "");
        common_chat_templates_inputs inputs;
        for (const ChatMessage &message : messages) {
            common_chat_msg &added = inputs.messages.emplace_back();
            added.role = message.role;
            added.content = message.content;
        }
        inputs.add_generation_prompt = true;
        inputs.use_jinja = true;
        return common_chat_templates_apply(templates.get(), inputs).prompt;
    } catch (const std::exception &error) {
        throw Error(cat("the model's chat template cannot be applied: ", error.what()));
    }
}

std::string render_user_message(const llama_model *model, const std::string &message) {
    const ChatMessage user{"user", message};
    return render_chat(model, {&user, 1});
}

}  // namespace bmoe::engine
