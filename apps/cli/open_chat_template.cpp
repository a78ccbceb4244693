#include "cli/open_chat_template.h"

#include <cstdio>

namespace bmoe::cli {

std::unique_ptr<engine::ChatTemplate> open_chat_template(const engine::Engine &engine, bool no_think) {
    auto chat = std::make_unique<engine::ChatTemplate>(engine.model());
    if (no_think && !chat->turn_off_reasoning()) {
        std::fputs("note: --no-think has no effect: the model's chat template has no way to turn reasoning off\n",
                   stderr);
    }
    return chat;
}

}  // namespace bmoe::cli
