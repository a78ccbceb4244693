// The signals that ask a program to end.
#pragma once

#include <array>
#include <csignal>

namespace bmoe::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP are `handler`'s, and SIGPIPE is ignored: the write fails instead. SIGHUP stays
// ignored where it was, as under nohup. What was before is put back.
class EndingSignals {
  public:
    explicit EndingSignals(void (*handler)(int));
    ~EndingSignals();
    EndingSignals(const EndingSignals &) = delete;
    EndingSignals &operator=(const EndingSignals &) = delete;

    // The three are ignored until the program ends.
    void ignore_from_now_on();

  private:
    static constexpr std::array kNumbers = {SIGINT, SIGTERM, SIGHUP};

    std::array<struct sigaction, kNumbers.size()> old_ = {};
    struct sigaction old_pipe_ = {};
    bool ignoring_ = false;
};

}  // namespace bmoe::cli
