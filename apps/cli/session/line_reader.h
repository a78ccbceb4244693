// Lines from a file descriptor, until there are none or another thread says so.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace bmoe::cli {

// Ends what waits for it. Thread-safe; wake() may be called in a signal handler.
class WakeEvent {
  public:
    WakeEvent();  // throws bmoe::Error
    ~WakeEvent();
    WakeEvent(const WakeEvent &) = delete;
    WakeEvent &operator=(const WakeEvent &) = delete;

    void wake();
    int descriptor() const { return descriptor_; }  // readable after wake()

  private:
    int descriptor_;
};

class LineReader {
  public:
    // Neither descriptor is owned. Lines of more than `most_bytes` are passed over.
    LineReader(int descriptor, const WakeEvent &wake, size_t most_bytes);

    enum class Got { kLine, kTooLong, kEnd, kWoken };

    // Waits. `line` is without its end, \n or \r\n; the last one may have none. kWoken after wake(), once the lines that were
    // read already are used up. Throws bmoe::Error if reading fails.
    Got next(std::string &line);

  private:
    bool take_line(std::string &line);
    bool wait() const;

    int descriptor_;
    int wake_;
    size_t most_bytes_;
    std::string buffer_;
    size_t searched_ = 0;   // of buffer_, without a line end
    bool passing_ = false;  // over a line that is too long
};

}  // namespace bmoe::cli
