// The lines at the end of a run.
#pragma once

#include "engine/engine.h"
#include "engine/generation.h"

namespace bmoe::cli {

// On stderr. `before_prompt`: seconds from the start of the program, or of the request, to its prompt.
void print_summary(const engine::Engine &engine, const engine::GenerationStats &stats, double before_prompt);

}  // namespace bmoe::cli
