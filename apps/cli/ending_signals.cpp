#include "cli/ending_signals.h"

namespace bmoe::cli {

EndingSignals::EndingSignals(void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;  // what is being written is not lost
    for (size_t i = 0; i < kNumbers.size(); ++i) {
        sigaction(kNumbers[i], nullptr, &old_[i]);
        if (kNumbers[i] != SIGHUP || old_[i].sa_handler != SIG_IGN) {
            sigaction(kNumbers[i], &action, nullptr);
        }
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &old_pipe_);
}

EndingSignals::~EndingSignals() {
    for (size_t i = 0; i < kNumbers.size() && !ignoring_; ++i) {
        sigaction(kNumbers[i], &old_[i], nullptr);
    }
    sigaction(SIGPIPE, &old_pipe_, nullptr);
}

void EndingSignals::ignore_from_now_on() {
    ignoring_ = true;
    for (const int number : kNumbers) {
        std::signal(number, SIG_IGN);
    }
}

}  // namespace bmoe::cli
