// A program started by a test, with its standard output in a pipe.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace bmoe::io::test {

class ChildProcess {
  public:
    using Environment = std::vector<std::pair<std::string, std::string>>;

    // Adds `environment` to the test's own. The program gets SIGTERM when the test dies. Throws std::runtime_error.
    explicit ChildProcess(std::vector<std::string> command, const Environment &environment = {});
    ~ChildProcess();  // terminates it and waits
    ChildProcess(const ChildProcess &) = delete;
    ChildProcess &operator=(const ChildProcess &) = delete;

    // The next line, without its end; false if there is none any more. Blocks.
    bool read_line(std::string &line);

    // Asks the program to end.
    void terminate();

    // Blocks until the program has ended; its exit code, or -1 if a signal ended it.
    int wait();

  private:
    pid_t pid_ = -1;
    int out_ = -1;
    int exit_code_ = -1;
};

}  // namespace bmoe::io::test
