// bmoe-cli perplexity: what a text costs the model, and so what a lossy knob costs.
#pragma once

#include "cli/command_line.h"

namespace bmoe::cli {

// The figures to stdout, everything else to stderr. Returns the exit status; throws bmoe::Error.
int run_perplexity(const CommandLine &command);

}  // namespace bmoe::cli
