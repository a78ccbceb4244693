// Text on standard output.
#pragma once

#include <string>
#include <string_view>

namespace bmoe::cli {

// Written through at once. After the first failure nothing more is written. Not thread-safe.
class TextOutput {
  public:
    void write(std::string_view text);
    bool failed() const { return failed_; }
    // After a failure. A reader that has gone away is no error of ours.
    int exit_status() const;
    std::string error() const;
    // Says error() on stderr; returns exit_status().
    int report_failure() const;

  private:
    bool failed_ = false;
    int error_ = 0;
};

}  // namespace bmoe::cli
