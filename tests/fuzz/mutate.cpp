// Runs a fuzz target without libFuzzer: on its seeds, on files, and on simple random mutations of both.
//
//   <program> [--seconds N] [--runs N] [--seed N] [--write-seeds FOLDER] [FILE or FOLDER...]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

namespace fs = std::filesystem;
using Input = std::vector<std::byte>;

void run(const Input &input) {
    // A copy of the exact size, so that a sanitizer sees every read past its end.
    const std::vector<uint8_t> exact(reinterpret_cast<const uint8_t *>(input.data()),
                                     reinterpret_cast<const uint8_t *>(input.data()) + input.size());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

Input read_file(const fs::path &path) {
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto *begin = reinterpret_cast<const std::byte *>(text.data());
    return {begin, begin + text.size()};
}

void write_seeds(const fs::path &folder) {
    fs::create_directories(folder);
    int number = 0;
    for (const Input &seed : bmoe::fuzz::seeds()) {
        std::ofstream out(folder / ("seed-" + std::to_string(number++)), std::ios::binary);
        out.write(reinterpret_cast<const char *>(seed.data()), static_cast<std::streamsize>(seed.size()));
    }
}

class Mutator {
  public:
    explicit Mutator(uint64_t seed) : random_(seed) {}

    Input mutate(const std::vector<Input> &corpus) {
        Input input = pick(corpus);
        for (uint64_t changes = 1 + below(4); changes > 0; --changes) change(input, corpus);
        return input;
    }

  private:
    uint64_t below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
    const Input &pick(const std::vector<Input> &corpus) { return corpus[below(corpus.size())]; }

    // Headers are what the targets parse: most changes go to the front.
    size_t place(const Input &input) {
        return below(below(4) == 0 ? input.size() : std::min<size_t>(input.size(), 1024));
    }

    void change(Input &input, const std::vector<Input> &corpus) {
        if (input.empty()) {
            input = pick(corpus);
            return;
        }
        const size_t at = place(input);
        switch (below(6)) {
            case 0:
                input[at] ^= std::byte{1} << static_cast<int>(below(8));
                break;
            case 1:
                input[at] = static_cast<std::byte>(below(256));
                break;
            case 2:
                write_number(input, at);
                break;
            case 3:
                input.resize(at);
                break;
            case 4:
                input.erase(input.begin() + static_cast<long>(at),
                            input.begin() + static_cast<long>(std::min(input.size(), at + 1 + below(16))));
                break;
            default:
                insert_piece(input, at, pick(corpus));
        }
    }

    void write_number(Input &input, size_t at) {
        constexpr std::array<uint64_t, 12> kOdd = {0,
                                                   1,
                                                   2,
                                                   4,
                                                   31,
                                                   64,
                                                   0x7fffffff,
                                                   0xffffffff,
                                                   uint64_t{1} << 32,
                                                   uint64_t{1} << 61,
                                                   ~uint64_t{0} >> 1,
                                                   ~uint64_t{0}};
        const uint64_t value = kOdd[below(kOdd.size())] + below(3) - 1;
        const size_t width = below(2) == 0 ? 4 : 8;
        for (size_t i = 0; i < width && at + i < input.size(); ++i) {
            input[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
        }
    }

    void insert_piece(Input &input, size_t at, const Input &from) {
        const size_t begin = below(from.size());
        const size_t end = std::min(from.size(), begin + below(64));
        input.insert(input.begin() + static_cast<long>(at), from.begin() + static_cast<long>(begin),
                     from.begin() + static_cast<long>(end));
    }

    std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char **argv) {
    uint64_t seconds = 0;
    uint64_t runs = 0;
    uint64_t seed = 1;
    std::vector<Input> corpus = bmoe::fuzz::seeds();
    for (int i = 1; i < argc; ++i) {
        const std::string arg = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
        if (arg.rfind("--", 0) != 0) {
            if (!fs::exists(arg)) {
                std::fprintf(stderr, "%s: no such file or folder\n", arg.c_str());
                return 2;
            }
            if (fs::is_directory(arg)) {
                for (const auto &entry : fs::directory_iterator(arg)) corpus.push_back(read_file(entry.path()));
            } else {
                corpus.push_back(read_file(arg));
            }
            continue;
        }
        if (value == nullptr) {
            std::fprintf(stderr, "%s: needs a value\n", arg.c_str());
            return 2;
        }
        ++i;
        if (arg == "--seconds") {
            seconds = std::strtoull(value, nullptr, 10);
        } else if (arg == "--runs") {
            runs = std::strtoull(value, nullptr, 10);
        } else if (arg == "--seed") {
            seed = std::strtoull(value, nullptr, 10);
        } else if (arg == "--write-seeds") {
            write_seeds(value);
            return 0;
        } else {
            std::fprintf(stderr, "%s: unknown; known are --seconds, --runs, --seed and --write-seeds\n", arg.c_str());
            return 2;
        }
    }

    for (const Input &input : corpus) run(input);
    Mutator mutator(seed);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    uint64_t done = 0;
    while (done < runs || (seconds > 0 && std::chrono::steady_clock::now() < end)) {
        run(mutator.mutate(corpus));
        ++done;
    }
    std::printf("%zu inputs and %llu mutations of them\n", corpus.size(), static_cast<unsigned long long>(done));
    return 0;
}
