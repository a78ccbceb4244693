// A text file that is written from beginning to end, beside something that must not suffer from it: the first failure is
// remembered instead of thrown, and from then on nothing is written.
#pragma once

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace bmoe {

// Not thread-safe.
class OutputFile {
  public:
    // Makes it, empty; one that was there is lost. `flag`: what the user said to get it. Throws bmoe::Error.
    OutputFile(const std::string &flag, const std::string &path)
        : name_(flag + ' ' + path), file_(std::fopen(path.c_str(), "we")) {
        if (file_ == nullptr) {
            throw Error(cat(name_, ": cannot be made (", errno_text(), "); give a path that can be written to"));
        }
    }
    OutputFile(const OutputFile &) = delete;
    OutputFile &operator=(const OutputFile &) = delete;

    void write(std::string_view text) {
        if (may_write() && std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) {
            fail();
        }
    }

    // Hands what was written to the system: it outlives this process.
    void flush() {
        if (may_write() && std::fflush(file_.get()) != 0) {
            fail();
        }
    }

    void close() {
        flush();
        if (file_ != nullptr && std::fclose(file_.release()) != 0 && error_.empty()) {
            fail();
        }
    }

    // A sentence about the first failure; empty without one.
    const std::string &error() const { return error_; }

  private:
    struct Close {
        void operator()(FILE *file) const { std::fclose(file); }
    };

    static std::string errno_text() { return std::generic_category().message(errno); }
    bool may_write() const { return file_ != nullptr && error_.empty(); }
    void fail() { error_ = cat(name_, ": cannot be written to (", errno_text(), "); the file is not complete"); }

    std::string name_;
    std::unique_ptr<FILE, Close> file_;
    std::string error_;
};

}  // namespace bmoe
