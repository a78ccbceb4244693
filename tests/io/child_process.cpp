#include "child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace bmoe::io::test {

ChildProcess::ChildProcess(std::vector<std::string> command, const Environment &environment) {
    std::vector<char *> arguments;
    arguments.reserve(command.size() + 1);
    for (std::string &argument : command) arguments.push_back(argument.data());
    arguments.push_back(nullptr);
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGTERM);
        ::dup2(pipe_ends[1], STDOUT_FILENO);
        for (const auto &[name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
        ::execv(arguments[0], arguments.data());
        ::_exit(127);
    }
    ::close(pipe_ends[1]);
    out_ = pipe_ends[0];
}

ChildProcess::~ChildProcess() {
    terminate();
    wait();
    ::close(out_);
}

bool ChildProcess::read_line(std::string &line) {
    line.clear();
    char c = 0;
    for (;;) {
        const ssize_t got = ::read(out_, &c, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return !line.empty();
        if (c == '\n') return true;
        line.push_back(c);
    }
}

void ChildProcess::terminate() {
    if (pid_ > 0) ::kill(pid_, SIGTERM);
}

int ChildProcess::wait() {
    if (pid_ <= 0) return exit_code_;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return exit_code_;
}

}  // namespace bmoe::io::test
