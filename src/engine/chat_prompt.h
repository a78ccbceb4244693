// The model's own chat template.
#pragma once

#include <string>

struct llama_model;

namespace bmoe::engine {

// Renders one user message, ready for the answer, with the chat template in the model's metadata. Throws bmoe::Error if the
// model has none or it cannot be applied.
std::string render_user_message(const llama_model *model, const std::string &message);

}  // namespace bmoe::engine
