#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cli/command_line.h"
#include "cli/huge_page_malloc.h"
#include "cli/run.h"
#include "ggml.h"

namespace {

// What llama.cpp takes for impossible, damaged metadata among it, ends here and not in a core dump.
void on_llama_abort(const char *message) {
    std::fprintf(stderr, "error: llama.cpp gave up (the model file may be damaged, or of a kind it cannot run): %s\n",
                 message);
    std::_Exit(1);
}

}  // namespace

int main(int argc, char **argv) {
    bmoe::cli::use_huge_page_malloc(argv);
    setenv("GGML_NO_BACKTRACE", "1", 0);
    ggml_set_abort_callback(on_llama_abort);
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
