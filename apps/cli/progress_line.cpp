#include "cli/progress_line.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace bmoe::cli {

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(float done) { show_text(std::to_string(static_cast<int>(done * 100)) + " %"); }

void ProgressLine::show_text(const std::string &text) {
    if (!terminal_ || text == shown_) {
        return;
    }
    shown_ = text;
    std::fprintf(stderr, "\r%s %s\033[K", what_.c_str(), text.c_str());
    std::fflush(stderr);
}

void ProgressLine::clear() {
    if (terminal_ && !shown_.empty()) {
        std::fputs("\r\033[K", stderr);
        shown_.clear();
    }
}

}  // namespace bmoe::cli
