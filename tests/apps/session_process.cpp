#include "tests/apps/session_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>

namespace bmoe::apps::test {

SessionProcess::SessionProcess(const std::string &command) {
    std::signal(SIGPIPE, SIG_IGN);
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    const std::string replacing = "exec " + command;
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::signal(SIGPIPE, SIG_DFL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", replacing.c_str(), nullptr);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
}

SessionProcess::~SessionProcess() {
    if (pid_ > 0) {
        kill(pid_, SIGKILL);
        wait();
    }
    close_input();
    close_output();
}

void SessionProcess::send_line(std::string_view line) {
    std::string text = std::string(line) + "\n";
    for (size_t at = 0; at < text.size();) {
        const ssize_t n = write(in_, text.data() + at, text.size() - at);
        if (n < 0 && errno != EINTR) throw std::runtime_error("cannot write to the session");
        at += static_cast<size_t>(n > 0 ? n : 0);
    }
}

void SessionProcess::close_input() {
    if (in_ >= 0) close(in_);
    in_ = -1;
}

void SessionProcess::close_output() {
    if (out_ >= 0) close(out_);
    out_ = -1;
}

void SessionProcess::signal(int number) const { kill(pid_, number); }

bool SessionProcess::read_line(std::string &line) {
    for (;;) {
        if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
            line = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            return true;
        }
        char piece[4096];
        const ssize_t n = read(out_, piece, sizeof(piece));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        buffer_.append(piece, static_cast<size_t>(n));
    }
}

OutputLine SessionProcess::next() {
    std::string line;
    if (!read_line(line)) {
        return {};
    }
    const size_t space = line.find(' ');
    if (line.rfind("BMOE_", 0) != 0 || space == std::string::npos) {
        throw std::runtime_error("not a line of a session: " + line);
    }
    return {line.substr(0, space), nlohmann::json::parse(line.substr(space + 1))};
}

OutputLine SessionProcess::next(std::string_view word, std::string *text) {
    for (;;) {
        OutputLine line = next();
        if (text != nullptr && line.body.contains("delta")) {
            *text += line.body["delta"].get<std::string>();
        }
        if (line.word.empty()) {
            throw std::runtime_error("the session ended before a line of " + std::string(word));
        }
        if (line.word == word) {
            return line;
        }
    }
}

OutputLine SessionProcess::answer(std::string *text) {
    for (;;) {
        OutputLine line = next();
        if (text != nullptr && line.body.contains("delta")) {
            *text += line.body["delta"].get<std::string>();
        }
        if (line.word.empty() || line.word == "BMOE_DONE" || line.word == "BMOE_ERROR") {
            return line;
        }
    }
}

int SessionProcess::wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace bmoe::apps::test
