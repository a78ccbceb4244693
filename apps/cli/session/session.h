// The machine interface: requests on stdin, answers on stdout (docs/session.md).
#pragma once

#include "cli/command_line.h"

namespace bmoe::cli {

// Returns the exit status when the session has ended. Throws bmoe::Error if the model cannot be opened.
int run_session(const CommandLine &command);

}  // namespace bmoe::cli
