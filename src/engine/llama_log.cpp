#include "engine/llama_log.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "llama.h"
#include "log.h"

namespace bmoe::engine {

namespace {

std::mutex mutex;
std::string errors;

void append(ggml_log_level level, const char *text, void *) {
    static const bool verbose = std::getenv("BMOE_LLAMA_LOG") != nullptr;
    if (verbose) {
        std::fputs(text, stderr);
    }
    if (level == GGML_LOG_LEVEL_ERROR) {
        const std::scoped_lock lock(mutex);
        errors += text;
    }
}

}  // namespace

void capture_llama_log() {
    llama_log_set(append, nullptr);
    // Its helpers have a log of their own, for programs with nothing else to say on stderr.
    common_log_set_verbosity_thold(LOG_LEVEL_OUTPUT);
}

std::string take_llama_errors() {
    const std::scoped_lock lock(mutex);
    std::string taken;
    taken.swap(errors);
    while (!taken.empty() && (taken.back() == '\n' || taken.back() == ' ')) {
        taken.pop_back();
    }
    for (char &c : taken) {
        c = c == '\n' ? ' ' : c;
    }
    return taken;
}

}  // namespace bmoe::engine
