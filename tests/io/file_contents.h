// Contents for test files, different at every offset.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace bmoe::io::test {

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
