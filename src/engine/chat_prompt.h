// The model's own chat template.
#pragma once

#include <span>
#include <string>

#include "engine/chat_message.h"

struct llama_model;

namespace bmoe::engine {

// Renders the messages, ready for the answer, with the chat template in the model's metadata. Throws bmoe::Error if the model
// has none or it cannot be applied.
std::string render_chat(const llama_model *model, std::span<const ChatMessage> messages);

}  // namespace bmoe::engine
