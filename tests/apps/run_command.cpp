#include "tests/apps/run_command.h"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/scratch.h"

namespace bmoe::apps::test {

namespace {

std::string contents(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace

std::string quoted(const std::string &text) {
    std::string out = "'";
    for (const char c : text) {
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return out + "'";
}

Finished run_command(const std::string &command) {
    const bmoe::test::Scratch scratch;
    const std::string out = scratch.file("out");
    const std::string err = scratch.file("err");
    const int status =
        std::system(("{ " + command + "; } >" + quoted(out) + " 2>" + quoted(err) + " </dev/null").c_str());
    Finished finished;
    finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    finished.out = contents(out);
    finished.err = contents(err);
    return finished;
}

}  // namespace bmoe::apps::test
