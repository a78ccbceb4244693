// Files for tests: a directory on the disk the tests run on, and contents that differ at every offset.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace bmoe::io::test {

// A directory below the working directory, which ctest makes the build directory: on a real disk, where /tmp may be not.
class ScratchDir {
  public:
    explicit ScratchDir(const std::filesystem::path &parent = std::filesystem::current_path()) {
        std::string name = (parent / "bmoe_io_XXXXXX").string();
        if (!::mkdtemp(name.data())) throw std::runtime_error("cannot create a directory like " + name);
        path_ = name;
    }
    ~ScratchDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScratchDir(const ScratchDir &) = delete;
    ScratchDir &operator=(const ScratchDir &) = delete;

    const std::filesystem::path &path() const { return path_; }
    std::string file(const std::string &name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

// Random bytes: no range equals another one.
inline std::vector<std::byte> make_contents(size_t size, uint64_t seed = 1) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> bytes(size);
    for (size_t i = 0; i < size; i += 8) {
        const uint64_t word = random();
        std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
    }
    return bytes;
}

inline void write_file(const std::string &path, const std::vector<std::byte> &bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path);
}

}  // namespace bmoe::io::test
