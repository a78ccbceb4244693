// A conversation with the model in a terminal.
#pragma once

#include "cli/command_line.h"

namespace bmoe::cli {

// Answers to stdout, everything else to stderr. Returns the exit status; throws bmoe::Error.
int run_chat(const CommandLine &command);

}  // namespace bmoe::cli
