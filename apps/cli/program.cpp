#include "cli/program.h"

#include <fcntl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cli/huge_page_malloc.h"
#include "ggml.h"

namespace bmoe::cli {

namespace {

void on_llama_abort(const char *message) {
    std::fprintf(stderr, "error: llama.cpp gave up (the model file may be damaged, or of a kind it cannot run): %s\n",
                 message);
    std::_Exit(1);
}

// A standard descriptor that is closed would be given to the next file that is opened, a record or the model among them. This
// way standard input is at its end, and what is written fails.
void occupy_standard_descriptors() {
    for (int descriptor = 0; descriptor <= 2; ++descriptor) {
        if (fcntl(descriptor, F_GETFD) == -1) {
            open("/dev/null", O_RDONLY);  // takes the lowest that is free
        }
    }
}

}  // namespace

void start_program(char **argv) {
    occupy_standard_descriptors();
    std::signal(SIGXFSZ, SIG_IGN);  // the write that is too much fails instead
    use_huge_page_malloc(argv);
    setenv("GGML_NO_BACKTRACE", "1", 0);
    ggml_set_abort_callback(on_llama_abort);
}

int guarded(int (*body)(int argc, char **argv), int argc, char **argv) {
    try {
        return body(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}

}  // namespace bmoe::cli
