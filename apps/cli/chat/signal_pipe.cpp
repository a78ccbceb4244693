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

SignalPipe::SignalPipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        throw Error(cat("cannot make a pipe for signals: ", std::strerror(errno)));
    }
    read_end_ = ends[0];
    write_end = ends[1];
    signals_.emplace(on_signal);
}

SignalPipe::~SignalPipe() {
    signals_.reset();
    ::close(read_end_);
    ::close(write_end);
}

int SignalPipe::take() const {
    unsigned char byte = 0;
    return ::read(read_end_, &byte, 1) == 1 ? byte : 0;
}

}  // namespace bmoe::cli
