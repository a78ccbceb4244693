// llama.cpp's log: warnings and errors are kept for our own messages, the rest is dropped.
#pragma once

#include <string>

namespace bmoe::engine {

// Routes llama.cpp's log here. Idempotent, thread-safe.
void capture_llama_log();

// The error lines since the last call, joined; empty if there were none.
std::string take_llama_errors();

}  // namespace bmoe::engine
