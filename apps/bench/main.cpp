#include "bench/commands.h"
#include "cli/program.h"

int main(int argc, char **argv) {
    bmoe::cli::start_program(argv);
    return bmoe::cli::guarded(bmoe::bench::run_command_line, argc, argv);
}
