// One message of a conversation.
#pragma once

#include <string>

namespace bmoe::engine {

struct ChatMessage {
    std::string role;  // "system", "user", "assistant", or what else the template knows
    std::string content;
    std::string reasoning = {};  // of an assistant; how much of it later prompts show is up to the template
};

}  // namespace bmoe::engine
