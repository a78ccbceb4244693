// A folder of its own for each test.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

namespace bmoe::test {

// Of a folder, until it is destroyed or the program ends, however it does.
class FolderLock {
  public:
    explicit FolderLock(const std::filesystem::path &path, int how = LOCK_EX)
        : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), holds_(fd_ >= 0 && ::flock(fd_, how) == 0) {}
    ~FolderLock() {
        if (fd_ >= 0) ::close(fd_);
    }
    FolderLock(const FolderLock &) = delete;
    FolderLock &operator=(const FolderLock &) = delete;

    bool holds() const { return holds_; }

  private:
    int fd_;
    bool holds_;
};

// Below the folder of the test program, which is the build folder: on a real disk, where /tmp may not be, and in no checkout
// whatever the working directory. What a test program that was killed has left there the next one removes.
class Scratch {
  public:
    // `parent` is not the folder of another Scratch: that is locked.
    explicit Scratch(const std::filesystem::path &parent = beside_program()) {
        const FolderLock making(parent);  // the new folder is not taken for one that was left before it is locked
        remove_left(parent);
        std::string name = (parent / kPrefix).string() + "XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
        path_ = name;
        lock_.emplace(path_);
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
    static constexpr const char *kPrefix = "bmoe_test_";

    static std::filesystem::path beside_program() {
        std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "scratch";
        std::filesystem::create_directories(folder);
        return folder;
    }

    static void remove_left(const std::filesystem::path &parent) {
        std::error_code ignored;
        for (const auto &entry : std::filesystem::directory_iterator(parent, ignored)) {
            if (entry.path().filename().string().starts_with(kPrefix) &&
                FolderLock(entry.path(), LOCK_EX | LOCK_NB).holds()) {
                std::filesystem::remove_all(entry.path(), ignored);
            }
        }
    }

    std::filesystem::path path_;
    std::optional<FolderLock> lock_;
};

}  // namespace bmoe::test
