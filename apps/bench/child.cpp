#include "bench/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace bmoe::bench {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t interrupted = 0;

void on_signal(int) { interrupted = 1; }

class Fd {
  public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    ~Fd() { close(); }
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    void reset(int fd) {
        close();
        fd_ = fd;
    }
    void close() {
        if (fd_ >= 0) {
            ::close(fd_);
            fd_ = -1;
        }
    }
    int get() const { return fd_; }

  private:
    int fd_;
};

struct Pipe {
    Fd read_end;
    Fd write_end;
    Pipe() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) {
            throw Error(cat("cannot make a pipe for a run: ", std::strerror(errno)));
        }
        read_end.reset(ends[0]);
        write_end.reset(ends[1]);
    }
};

// Between fork and exec: only what is safe there.
[[noreturn]] void become(char *const *argv, int out, int err, int procs, const sigset_t &mask, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    if (procs >= 0 && write(procs, "0", 1) != 1) {
        constexpr char kMessage[] = "error: the run could not enter its memory cgroup\n";
        const ssize_t ignored = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
        static_cast<void>(ignored);
        _exit(126);
    }
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execv(argv[0], argv);
    constexpr char kMessage[] = "error: the program of a run could not be started\n";
    const ssize_t ignored = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    static_cast<void>(ignored);
    _exit(127);
}

// False at the end of the stream.
bool append_from(int fd, std::string &text) {
    char buffer[4096];
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n > 0) {
        text.append(buffer, static_cast<size_t>(n));
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

int wait_for(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

// Until both streams have ended; false if interrupted.
bool collect(Pipe &out, Pipe &err, ChildOutput &output, const sigset_t &mask) {
    std::array<pollfd, 2> streams = {pollfd{out.read_end.get(), POLLIN, 0}, pollfd{err.read_end.get(), POLLIN, 0}};
    const std::array<std::string *, 2> texts = {&output.out, &output.err};
    while (streams[0].fd >= 0 || streams[1].fd >= 0) {
        // Signals are let through only here, so that none is missed.
        const int ready = ppoll(streams.data(), streams.size(), nullptr, &mask);
        if (interrupted != 0) {
            return false;
        }
        for (size_t i = 0; ready > 0 && i < streams.size(); ++i) {
            if (streams[i].fd >= 0 && streams[i].revents != 0 && !append_from(streams[i].fd, *texts[i])) {
                streams[i].fd = -1;
            }
        }
    }
    return true;
}

}  // namespace

InterruptScope::InterruptScope() {
    interrupted = 0;
    sigset_t blocked;
    sigemptyset(&blocked);
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (size_t i = 0; i < std::size(kSignals); ++i) {
        sigaddset(&blocked, kSignals[i]);
        sigaction(kSignals[i], &action, &before_[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, &mask_);
}

InterruptScope::~InterruptScope() {
    for (size_t i = 0; i < std::size(kSignals); ++i) {
        sigaction(kSignals[i], &before_[i], nullptr);
    }
    sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

ChildOutput run_child(const std::vector<std::string> &command, const std::string &procs_file,
                      const InterruptScope &interrupts) {
    Pipe out;
    Pipe err;
    Fd procs;
    if (!procs_file.empty()) {
        procs.reset(open(procs_file.c_str(), O_WRONLY | O_CLOEXEC));
        if (procs.get() < 0) {
            throw Error(cat("cannot open ", procs_file, ": ", std::strerror(errno)));
        }
    }
    std::vector<char *> argv;
    argv.reserve(command.size() + 1);
    for (const std::string &word : command) {
        argv.push_back(const_cast<char *>(word.c_str()));
    }
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) {
        throw Error(cat("cannot start a process for a run: ", std::strerror(errno)));
    }
    if (pid == 0) {
        become(argv.data(), out.write_end.get(), err.write_end.get(), procs.get(), interrupts.outer_mask(), parent);
    }
    out.write_end.close();
    err.write_end.close();
    ChildOutput output;
    const bool whole = collect(out, err, output, interrupts.outer_mask());
    if (!whole) {
        kill(pid, SIGKILL);
    }
    output.wait_status = wait_for(pid);
    if (!whole) {
        throw Interrupted();
    }
    return output;
}

}  // namespace bmoe::bench
