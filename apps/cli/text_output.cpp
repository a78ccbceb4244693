#include "cli/text_output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace bmoe::cli {

void TextOutput::write(std::string_view text) {
    failed_ = failed_ || std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0;
    error_ = failed_ && error_ == 0 ? errno : error_;
}

int TextOutput::exit_status() const { return error_ == EPIPE ? 128 + SIGPIPE : 1; }

std::string TextOutput::error() const { return cat("cannot write to standard output: ", std::strerror(error_)); }

int TextOutput::report_failure() const {
    std::fprintf(stderr, "error: %s\n", error().c_str());
    return exit_status();
}

}  // namespace bmoe::cli
