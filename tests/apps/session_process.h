// A session of the command, driven as a client drives it.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace bmoe::apps::test {

struct OutputLine {
    std::string word;  // empty: there are no more lines
    nlohmann::json body;
};

class SessionProcess {
  public:
    // `command` is a shell command, of one program. Its standard error goes to the test's. Throws std::runtime_error.
    explicit SessionProcess(const std::string &command);
    ~SessionProcess();  // kills it
    SessionProcess(const SessionProcess &) = delete;
    SessionProcess &operator=(const SessionProcess &) = delete;

    void send_line(std::string_view line);
    void send(const nlohmann::json &request) { send_line(request.dump()); }
    void close_input();
    void close_output();
    void signal(int number) const;

    // The next line. Blocks. Throws std::runtime_error if it is not a word and JSON.
    OutputLine next();
    // The next line of this word, or the first without one; the text of lines on the way is added to `text`.
    OutputLine next(std::string_view word, std::string *text = nullptr);
    // As next(), the answer to a request: BMOE_DONE or BMOE_ERROR.
    OutputLine answer(std::string *text = nullptr);

    // Exit status, 128 + n after signal n. Blocks.
    int wait();

  private:
    bool read_line(std::string &line);

    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
    std::string buffer_;
};

}  // namespace bmoe::apps::test
