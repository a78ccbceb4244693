// What a person types, byte by byte, or the signal that comes meanwhile.
#pragma once

#include <string>

#include "cli/chat/signal_pipe.h"

namespace bmoe::cli {

class TerminalInput {
  public:
    enum class Event { kByte, kEnd, kSignal };

    // Reads standard input. `signals` must outlive it.
    explicit TerminalInput(const SignalPipe &signals) : signals_(signals) {}

    // Blocks. After kSignal what was typed before it is dropped, and signal() says which one it was.
    Event next(char &byte);
    int signal() const { return signal_; }

  private:
    const SignalPipe &signals_;
    std::string typed_;
    size_t at_ = 0;
    int signal_ = 0;
};

}  // namespace bmoe::cli
