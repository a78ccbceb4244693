// What the session says about a model and about an answer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/session/output_lines.h"
#include "engine/engine.h"
#include "engine/generation.h"

namespace bmoe::cli {

// `notes`: for the user, made while the model was opened.
Json ready_body(const CommandLine &command, const engine::Engine &engine, const std::vector<std::string> &notes);

// Fields of a BMOE_DONE line that follow its reason. `prompt_tokens`: of the whole prompt; empty if they were not counted.
Json answer_figures(const engine::Engine &engine, const engine::GenerationStats &stats,
                    std::optional<size_t> prompt_tokens);

// `done` of `total` tokens after `seconds`, `reused` of them at once.
Json prompt_progress(size_t done, size_t total, size_t reused, double seconds);

}  // namespace bmoe::cli
