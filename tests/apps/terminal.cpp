#include "tests/apps/terminal.h"

#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace bmoe::apps::test {

Terminal::Terminal(const std::string &command) {
    struct winsize size = {};
    size.ws_row = 24;
    size.ws_col = 200;
    pid_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ < 0) {
        throw std::runtime_error("no pseudo-terminal can be made here");
    }
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("TERM", "xterm", 1);
        execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
        _exit(127);
    }
}

Terminal::~Terminal() {
    if (status_ == -1) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    close(fd_);
}

void Terminal::type(const std::string &keys) {
    if (write(fd_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) {
        throw std::runtime_error("cannot type into the terminal");
    }
}

std::string Terminal::read_until(const std::string &text) {
    for (;;) {
        if (const size_t at = screen_.find(text, seen_); at != std::string::npos) {
            std::string read = screen_.substr(seen_, at + text.size() - seen_);
            seen_ = at + text.size();
            return read;
        }
        if (!read_more()) {
            throw std::runtime_error("'" + text + "' is not on the screen, but: " + screen_.substr(seen_));
        }
    }
}

void Terminal::await_bytes(size_t n) {
    for (const size_t wanted = screen_.size() + n; screen_.size() < wanted;) {
        if (!read_more()) {
            throw std::runtime_error("nothing more is on the screen after: " + screen_.substr(seen_));
        }
    }
}

void Terminal::signal(int number) const { kill(pid_, number); }

int Terminal::wait() {
    while (read_more()) {
    }
    if (!is_closed_) {
        throw std::runtime_error("the program does not end; on the screen: " + screen_);
    }
    if (status_ == -1) {
        int status = 0;
        waitpid(pid_, &status, 0);
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return status_;
}

// False at the end, which Linux reports as an error.
bool Terminal::read_more() {
    constexpr int kMinute = 60000;
    pollfd waited = {fd_, POLLIN, 0};
    if (poll(&waited, 1, kMinute) <= 0) {
        return false;
    }
    char bytes[4096];
    const ssize_t n = read(fd_, bytes, sizeof(bytes));
    if (n <= 0) {
        is_closed_ = true;
        return false;
    }
    screen_.append(bytes, static_cast<size_t>(n));
    return true;
}

}  // namespace bmoe::apps::test
