// The model's own chat template.
#pragma once

#include <span>
#include <string>

struct llama_model;

namespace bmoe::engine {

struct ChatMessage {
    std::string role;  // system, user, assistant, or what else the template knows
    std::string content;
};

// Renders the messages, ready for the answer, with the chat template in the model's metadata. Throws bmoe::Error if the model
// has none or it cannot be applied.
std::string render_chat(const llama_model *model, std::span<const ChatMessage> messages);

// The same for one message of the user.
std::string render_user_message(const llama_model *model, const std::string &message);

}  // namespace bmoe::engine
