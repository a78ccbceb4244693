#include "cli/prompt_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "cli/utf8.h"

namespace bmoe::cli {

namespace {

std::string read_to_end(int fd, const std::string &source) {
    std::string text;
    char piece[1 << 16];
    for (;;) {
        const ssize_t n = ::read(fd, piece, sizeof(piece));
        if (n == 0) {
            return text;
        }
        if (n > 0) {
            text.append(piece, static_cast<size_t>(n));
            if (std::memchr(piece, '\0', static_cast<size_t>(n)) != nullptr) {
                return text;  // no text; a device may have no end
            }
        } else if (errno != EINTR) {
            throw Error(cat(source, ": cannot read the prompt: ", std::strerror(errno)));
        }
    }
}

}  // namespace

std::string read_prompt_file(const std::string &path) {
    const bool is_stdin = path == "-";
    const std::string source = is_stdin ? "standard input" : path;
    const int fd = is_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        throw Error(cat(source, ": cannot read the prompt: ", std::strerror(errno)));
    }
    struct Closer {
        int fd;
        ~Closer() {
            if (fd != STDIN_FILENO) {
                ::close(fd);
            }
        }
    } const closer{fd};
    std::string text = read_to_end(fd, source);
    if (text.empty()) {
        throw Error(cat(source, ": is empty, and a prompt needs some text"));
    }
    check_prompt(text, source);
    return text;
}

void check_prompt(std::string_view text, const std::string &source) {
    if (const size_t at = text.find('\0'); at != std::string_view::npos) {
        throw Error(cat(source, ": has a NUL byte at offset ", at, "; a prompt is text, in UTF-8"));
    }
    if (const auto at = find_invalid_utf8(text)) {
        throw Error(cat(source, ": is not UTF-8 at offset ", *at, "; convert it, for example with iconv -t UTF-8"));
    }
}

}  // namespace bmoe::cli
