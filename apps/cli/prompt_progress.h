// How far a long prompt has been read, on the terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "cli/progress_line.h"

namespace bmoe::cli {

// The line to show when `done` of `total` tokens took `seconds`; without a speed and a time while nothing is done.
std::string prompt_progress_text(size_t done, size_t total, double seconds);

class PromptProgress {
  public:
    // Shows nothing for a prompt of one ubatch, which has no middle, nor if it is not `wanted`. `total`, `ubatch`: tokens.
    PromptProgress(size_t total, size_t ubatch, bool wanted = true);

    // `total` can become known better meanwhile. Nothing is shown any more when all is done.
    void show(size_t done, size_t total);
    // When it ends before that.
    void clear() { line_.clear(); }

  private:
    ProgressLine line_{"reading prompt:"};
    bool shown_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace bmoe::cli
