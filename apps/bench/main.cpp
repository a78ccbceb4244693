#include <cstdio>
#include <cstdlib>
#include <exception>

#include "bench/commands.h"
#include "cli/huge_page_malloc.h"
#include "ggml.h"

namespace {

// What llama.cpp takes for impossible ends a run with an error line and not with a core dump.
void on_llama_abort(const char *message) {
    std::fprintf(stderr, "error: llama.cpp gave up (the model file may be damaged, or of a kind it cannot run): %s\n",
                 message);
    std::_Exit(1);
}

}  // namespace

int main(int argc, char **argv) {
    // Runs must have the memory that bmoe-cli has.
    bmoe::cli::use_huge_page_malloc(argv);
    setenv("GGML_NO_BACKTRACE", "1", 0);
    ggml_set_abort_callback(on_llama_abort);
    try {
        return bmoe::bench::run_command_line(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
