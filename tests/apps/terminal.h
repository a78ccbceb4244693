// A program that a test runs in a terminal of its own (a pseudo-terminal), as a person would.
#pragma once

#include <sys/types.h>

#include <string>

namespace bmoe::apps::test {

class Terminal {
  public:
    // `command` is a shell command; see run_command.h for quoting. Throws std::runtime_error.
    explicit Terminal(const std::string &command);
    ~Terminal();  // kills what still runs
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;

    void type(const std::string &keys);
    // The next thing on the screen is read up to and including `text`, and returned. Throws std::runtime_error with what is there
    // instead if the program ends, or nothing comes for a minute.
    std::string read_until(const std::string &text);
    // Blocks until so many bytes more are on the screen, which read_until() then returns too.
    void await_bytes(size_t n);

    void signal(int number) const;
    // Reads the rest and blocks until the program has ended: its exit status; 128 + n after signal n. Throws std::runtime_error if
    // nothing comes for a minute.
    int wait();
    // Everything that was on the screen.
    const std::string &screen() const { return screen_; }

  private:
    bool read_more();

    pid_t pid_ = -1;
    int fd_ = -1;
    int status_ = -1;
    bool is_closed_ = false;
    std::string screen_;
    size_t seen_ = 0;
};

constexpr const char *kCtrlC = "\x03";
constexpr const char *kCtrlD = "\x04";
constexpr const char *kUp = "\033[A";

}  // namespace bmoe::apps::test
