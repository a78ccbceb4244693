// Huge pages for what malloc gives out.
#pragma once

namespace bmoe::cli {

// Starts the program again, in the same process, with glibc's malloc asking for huge pages: it reads that wish from the
// environment at its start only. Dense weights, their temporary copies while llama.cpp rearranges them, KV cache and compute
// buffers all come from malloc; loading an 18 GB model takes 1.2 s instead of 4, and a token no page fault. And without fast
// bins: for every graph ggml allocates an aligned piece, which are never joined again there, and the heap of a compute thread grows
// without end. Call first. Returns if that is done already, or cannot be done: then the program works with small pages.
void use_huge_page_malloc(char **argv);

}  // namespace bmoe::cli
