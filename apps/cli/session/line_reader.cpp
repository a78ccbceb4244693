#include "cli/session/line_reader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace bmoe::cli {

WakeEvent::WakeEvent() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (descriptor_ < 0) {
        throw Error(cat("cannot make an eventfd: ", std::strerror(errno)));
    }
}

WakeEvent::~WakeEvent() { close(descriptor_); }

void WakeEvent::wake() {
    const uint64_t one = 1;
    // Fails only where it has been woken often enough.
    [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof(one));
}

LineReader::LineReader(int descriptor, const WakeEvent &wake, size_t most_bytes)
    : descriptor_(descriptor), wake_(wake.descriptor()), most_bytes_(most_bytes) {}

// Of what was read already.
bool LineReader::take_line(std::string &line) {
    const size_t end = buffer_.find('\n', searched_);
    if (end == std::string::npos) {
        searched_ = buffer_.size();
        return false;
    }
    line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    searched_ = 0;
    if (!line.empty() && line.back() == '\r') {
        line.pop_back();
    }
    return true;
}

// False once woken.
bool LineReader::wait() const {
    pollfd watched[] = {{descriptor_, POLLIN, 0}, {wake_, POLLIN, 0}};
    while (poll(watched, 2, -1) < 0) {
        if (errno != EINTR) {
            throw Error(cat("cannot wait for standard input: ", std::strerror(errno)));
        }
    }
    return watched[1].revents == 0;
}

LineReader::Got LineReader::next(std::string &line) {
    constexpr size_t kPiece = 65536;
    for (;;) {
        if (take_line(line)) {
            const bool too_long = passing_ || line.size() > most_bytes_;
            passing_ = false;
            return too_long ? Got::kTooLong : Got::kLine;
        }
        if (buffer_.size() > most_bytes_) {
            passing_ = true;
            buffer_.clear();
            searched_ = 0;
        }
        if (!wait()) {
            return Got::kWoken;
        }
        const size_t held = buffer_.size();
        buffer_.resize(held + kPiece);
        const ssize_t got = read(descriptor_, buffer_.data() + held, kPiece);
        const int error = errno;
        buffer_.resize(held + static_cast<size_t>(got > 0 ? got : 0));
        if (got < 0 && error != EINTR && error != EAGAIN) {
            throw Error(cat("cannot read standard input: ", std::strerror(error)));
        }
        if (got == 0 && buffer_.empty() && !passing_) {
            return Got::kEnd;
        }
        if (got == 0) {
            buffer_ += '\n';
        }
    }
}

}  // namespace bmoe::cli
