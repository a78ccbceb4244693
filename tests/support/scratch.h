// A folder of its own for each test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace bmoe::test {

// Below the working directory, which is the build folder under ctest: on a real disk, where /tmp may not be.
class Scratch {
  public:
    explicit Scratch(const std::filesystem::path &parent = std::filesystem::current_path()) {
        std::string name = (parent / "bmoe_test_XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
        path_ = name;
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    const std::filesystem::path &path() const { return path_; }
    std::string file(const std::string &name) const { return (path_ / name).string(); }
    std::string folder(const std::string &name) const {
        std::filesystem::create_directories(path_ / name);
        return (path_ / name).string();
    }

  private:
    std::filesystem::path path_;
};

}  // namespace bmoe::test
