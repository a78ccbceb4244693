// Signals as something to wait for, beside input.
#pragma once

#include <optional>

#include "cli/ending_signals.h"

namespace bmoe::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP do nothing but make fd() readable. SIGHUP stays ignored where it was. SIGPIPE is
// ignored: the write fails instead. One at a time.
class SignalPipe {
  public:
    SignalPipe();  // throws bmoe::Error
    ~SignalPipe();
    SignalPipe(const SignalPipe &) = delete;
    SignalPipe &operator=(const SignalPipe &) = delete;

    int fd() const { return read_end_; }
    // The next signal that came; 0 if there is none. Does not block.
    int take() const;

  private:
    std::optional<EndingSignals> signals_;
    int read_end_ = -1;
};

}  // namespace bmoe::cli
