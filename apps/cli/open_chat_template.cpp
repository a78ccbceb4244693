#include "cli/open_chat_template.h"

#include <cstdio>

namespace bmoe::cli {

std::unique_ptr<engine::ChatTemplate> open_chat_template(const engine::Engine &engine, bool no_think) {
    auto chat = std::make_unique<engine::ChatTemplate>(engine.model());
    if (no_think && !chat->turn_off_reasoning()) {
        std::fprintf(stderr, "note: %s\n", kNoReasoningSwitch);
    }
    return chat;
}

}  // namespace bmoe::cli
