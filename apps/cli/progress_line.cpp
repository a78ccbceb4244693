#include "cli/progress_line.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace bmoe::cli {

ProgressLine::ProgressLine(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(float done) {
    const int percent = static_cast<int>(done * 100);
    if (!terminal_ || percent == shown_) {
        return;
    }
    shown_ = percent;
    std::fprintf(stderr, "\r%s %d %%\033[K", what_.c_str(), percent);
    std::fflush(stderr);
}

void ProgressLine::clear() {
    if (terminal_ && shown_ >= 0) {
        std::fputs("\r\033[K", stderr);
        shown_ = -1;
    }
}

}  // namespace bmoe::cli
