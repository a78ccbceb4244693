// A folder for files that only one session needs.
#pragma once

#include <filesystem>
#include <string>

namespace bmoe::bench {

class TemporaryFolder {
  public:
    TemporaryFolder();   // below TMPDIR, else /tmp; throws bmoe::Error
    ~TemporaryFolder();  // removes it and what is in it
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    std::string file(const std::string &name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

}  // namespace bmoe::bench
