// The read-ahead of the block device that holds a file, changed for a while.
#pragma once

#include <string>

namespace bmoe::bench {

class ReadAhead {
  public:
    // Sets the read-ahead of the device that holds `file`. Throws bmoe::Error if it cannot be found or set.
    ReadAhead(const std::string &file, int kib);
    ~ReadAhead();  // sets what was before
    ReadAhead(const ReadAhead &) = delete;
    ReadAhead &operator=(const ReadAhead &) = delete;

    // The device's read-ahead in KiB; -1 if it cannot be told.
    static int current(const std::string &file);

  private:
    std::string control_;
    int before_ = 0;
};

}  // namespace bmoe::bench
