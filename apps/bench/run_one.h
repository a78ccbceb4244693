// One run of a cell, in this process.
#pragma once

#include <string>

namespace bmoe::bench {

// `request` is a JSON object: model, prompt (path of a text), prompt_tokens, tokens, threads, settings (engine_settings.h).
// Prints one JSON object with all figure_names() to stdout. Throws bmoe::Error.
void run_one(const std::string &request);

}  // namespace bmoe::bench
