// A line on the terminal that shows how far something is, overwritten in place.
#pragma once

#include <string>

namespace bmoe::cli {

class ProgressLine {
  public:
    explicit ProgressLine(std::string what);
    ~ProgressLine();
    ProgressLine(const ProgressLine &) = delete;
    ProgressLine &operator=(const ProgressLine &) = delete;

    // `done` from 0 to 1. Nothing is shown where stderr is not a terminal.
    void show(float done);
    void show_text(const std::string &text);
    void clear();

  private:
    std::string what_;
    bool terminal_;
    std::string shown_;
};

}  // namespace bmoe::cli
