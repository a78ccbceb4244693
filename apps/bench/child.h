// Runs a program to its end and keeps what it printed.
#pragma once

#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

namespace bmoe::bench {

struct ChildOutput {
    int wait_status = 0;  // as waitpid gives it
    std::string out;
    std::string err;
};

class Interrupted : public std::runtime_error {
  public:
    Interrupted() : std::runtime_error("interrupted") {}
};

// While one exists, SIGINT, SIGTERM and SIGHUP end the child that runs, or the next one, instead of the program: run_child then
// throws Interrupted. One at a time.
class InterruptScope {
  public:
    InterruptScope();
    ~InterruptScope();
    InterruptScope(const InterruptScope &) = delete;
    InterruptScope &operator=(const InterruptScope &) = delete;

    const sigset_t &outer_mask() const { return mask_; }  // of signals, before

  private:
    sigset_t mask_{};
    struct sigaction before_[3]{};
};

// Runs command[0] with the arguments that follow; with a `procs_file`, in that cgroup. Throws Interrupted, and bmoe::Error if
// the program cannot be started.
ChildOutput run_child(const std::vector<std::string> &command, const std::string &procs_file,
                      const InterruptScope &interrupts);

}  // namespace bmoe::bench
