// What every program that runs models does first and last.
#pragma once

namespace bmoe::cli {

// Call first. Huge pages for malloc (see huge_page_malloc.h), so that programs that compare have the same memory; and what
// llama.cpp takes for impossible, damaged metadata among it, ends the program with an error line and status 1.
void start_program(char **argv);

// Runs `body`; an exception becomes an error line and status 1.
int guarded(int (*body)(int argc, char **argv), int argc, char **argv);

}  // namespace bmoe::cli
