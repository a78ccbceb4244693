// Opening a model as a command does: progress on the terminal, notes and the memory plan on stderr.
#pragma once

#include <memory>

#include "cli/command_line.h"
#include "engine/engine.h"

namespace bmoe::cli {

// Throws bmoe::Error.
std::unique_ptr<engine::Engine> open_engine(const CommandLine &command);

}  // namespace bmoe::cli
