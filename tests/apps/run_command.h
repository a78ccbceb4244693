// Runs a command to its end and keeps what it printed.
#pragma once

#include <string>

namespace bmoe::apps::test {

struct Finished {
    int status = -1;  // exit status; 128 + n after signal n
    std::string out;
    std::string err;
};

// `command` is a shell command; everything in it that comes from a path must be quoted by quoted().
Finished run_command(const std::string &command);

std::string quoted(const std::string &text);

}  // namespace bmoe::apps::test
