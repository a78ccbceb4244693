#include "cli/chat/terminal_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace bmoe::cli {

TerminalInput::Event TerminalInput::next(char &byte) {
    while (at_ == typed_.size()) {
        pollfd waited[] = {{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
        if (::poll(waited, 2, -1) < 0) {
            if (errno == EINTR) {
                continue;
            }
            return Event::kEnd;
        }
        signal_ = signals_.take();
        if (signal_ != 0) {
            return Event::kSignal;
        }
        if (waited[0].revents == 0) {
            continue;
        }
        char bytes[4096];
        const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof(bytes));
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (n <= 0) {
            return Event::kEnd;
        }
        typed_.assign(bytes, static_cast<size_t>(n));
        at_ = 0;
    }
    byte = typed_[at_++];
    return Event::kByte;
}

}  // namespace bmoe::cli
