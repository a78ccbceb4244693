// The subcommands of bmoe-bench.
#pragma once

namespace bmoe::bench {

// Returns the program's exit status: 0; 1 if a run failed; 2 for a wrong command line; 130 if interrupted. Throws bmoe::Error.
int run_command_line(int argc, char **argv);

}  // namespace bmoe::bench
