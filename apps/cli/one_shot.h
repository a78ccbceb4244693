// One prompt, one answer.
#pragma once

#include "cli/command_line.h"

namespace bmoe::cli {

// Text to stdout, everything else to stderr. Returns the exit status; throws bmoe::Error.
int run_one_shot(const CommandLine &command);

}  // namespace bmoe::cli
