#include "cli/prompt_progress.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"

namespace bmoe::cli {

namespace {

std::string duration_text(double seconds) {
    const auto whole = std::lround(seconds);
    if (whole < 60) {
        return cat(whole, " s");
    }
    return whole < 3600 ? cat(whole / 60, " min ", whole % 60, " s")
                        : cat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

}  // namespace

std::string prompt_progress_text(size_t done, size_t total, double seconds) {
    std::string text = cat(done, " of ", total, " tokens");
    if (done == 0 || seconds <= 0) {
        return text;
    }
    const double speed = static_cast<double>(done) / seconds;
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%.1f", speed);
    return cat(text, ", ", digits, " tok/s, ", duration_text(static_cast<double>(total - done) / speed), " left");
}

PromptProgress::PromptProgress(size_t total, size_t ubatch, bool wanted) : shown_(wanted && total > ubatch) {
    if (shown_) {
        line_.show_text(prompt_progress_text(0, total, 0));
    }
}

void PromptProgress::show(size_t done, size_t total) {
    if (done >= total) {
        line_.clear();
    } else if (shown_) {
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
        line_.show_text(prompt_progress_text(done, total, seconds.count()));
    }
}

}  // namespace bmoe::cli
