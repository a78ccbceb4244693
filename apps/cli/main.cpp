#include <cstdio>
#include <exception>

#include "cli/command_line.h"
#include "cli/huge_page_malloc.h"
#include "cli/run.h"

int main(int argc, char **argv) {
    bmoe::cli::use_huge_page_malloc(argv);
    try {
        bmoe::cli::CommandLine command;
        int exit_code = 0;
        if (bmoe::cli::parse_command_line(argc, argv, command, exit_code) == bmoe::cli::Parsed::kExit) {
            return exit_code;
        }
        return bmoe::cli::run(command);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
