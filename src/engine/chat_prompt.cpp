#include "engine/chat_prompt.h"

#include <exception>

#include "base/error.h"
#include "chat.h"
#include "llama.h"

namespace bmoe::engine {

std::string render_user_message(const llama_model *model, const std::string &message) {
    if (llama_model_chat_template(model, nullptr) == nullptr) {
        throw Error("--chat: the model has no chat template (tokenizer.chat_template); run without --chat");
    }
    try {
        const common_chat_templates_ptr templates = common_chat_templates_init(model, "");
        common_chat_templates_inputs inputs;
        common_chat_msg user;
        user.role = "user";
        user.content = message;
        inputs.messages.push_back(user);
        inputs.add_generation_prompt = true;
        inputs.use_jinja = true;
        return common_chat_templates_apply(templates.get(), inputs).prompt;
    } catch (const std::exception &error) {
        throw Error(cat("--chat: the model's chat template cannot be applied: ", error.what()));
    }
}

}  // namespace bmoe::engine
