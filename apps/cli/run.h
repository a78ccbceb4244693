// One run of the command: open, generate, report.
#pragma once

#include "cli/command_line.h"

namespace bmoe::cli {

// Text goes to stdout as it comes, everything else to stderr. Returns the exit status: 0, 130 after an interrupt. Throws
// bmoe::Error; the summary of what was generated until then has been printed.
int run(const CommandLine &command);

}  // namespace bmoe::cli
