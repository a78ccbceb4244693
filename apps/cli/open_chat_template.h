// The model's chat template as the flags want it.
#pragma once

#include <memory>

#include "engine/chat_template.h"
#include "engine/engine.h"

namespace bmoe::cli {

// Said where --no-think asks for what the template does not know.
constexpr const char *kNoReasoningSwitch =
    "--no-think has no effect: the model's chat template has no way to turn reasoning off";

// `no_think`: without reasoning, and a line on stderr where the template has no way to ask for that. Throws bmoe::Error.
std::unique_ptr<engine::ChatTemplate> open_chat_template(const engine::Engine &engine, bool no_think);

}  // namespace bmoe::cli
