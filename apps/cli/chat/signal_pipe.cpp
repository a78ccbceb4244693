#include "cli/chat/signal_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace bmoe::cli {

namespace {

// A signal handler reaches nothing else.
volatile std::sig_atomic_t write_end = -1;

void on_signal(int signal) {
    const int saved = errno;
    const auto byte = static_cast<unsigned char>(signal);
    // Full: there are signals enough to be taken.
    [[maybe_unused]] const ssize_t written = ::write(write_end, &byte, 1);
    errno = saved;
}

}  // namespace

struct SignalPipe::Old {
    struct sigaction interrupt, terminate, hang_up, pipe;
};

SignalPipe::SignalPipe() : old_(std::make_unique<Old>()) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        throw Error(cat("cannot make a pipe for signals: ", std::strerror(errno)));
    }
    read_end_ = ends[0];
    write_end = ends[1];
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &old_->interrupt);
    sigaction(SIGTERM, &action, &old_->terminate);
    sigaction(SIGHUP, nullptr, &old_->hang_up);
    if (old_->hang_up.sa_handler != SIG_IGN) {  // nohup wants it to live on
        sigaction(SIGHUP, &action, nullptr);
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &old_->pipe);
}

SignalPipe::~SignalPipe() {
    sigaction(SIGINT, &old_->interrupt, nullptr);
    sigaction(SIGTERM, &old_->terminate, nullptr);
    sigaction(SIGHUP, &old_->hang_up, nullptr);
    sigaction(SIGPIPE, &old_->pipe, nullptr);
    ::close(read_end_);
    ::close(write_end);
}

int SignalPipe::take() const {
    unsigned char byte = 0;
    return ::read(read_end_, &byte, 1) == 1 ? byte : 0;
}

}  // namespace bmoe::cli
