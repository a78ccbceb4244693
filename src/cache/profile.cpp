#include "cache/profile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/replace_file.h"

namespace bmoe::cache {

namespace {

// The file: magic, version, number of layers, fingerprint, experts by layer, frequencies, checksum of all before. Numbers are
// in the machine's own byte order: a profile stays on the machine it was made on, and elsewhere the version does not match.
constexpr std::string_view kMagic = "bmoe-use";
constexpr uint32_t kVersion = 1;
constexpr size_t kLargestFile = size_t{16} << 20;

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    int get() const { return fd_; }

  private:
    int fd_;
};

template <typename T>
void append(std::vector<std::byte> &out, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename T>
void append(std::vector<std::byte> &out, const T &value) {
    append(out, std::span(&value, 1));
}

uint64_t checksum(std::span<const std::byte> bytes) {
    Fnv1a hash;
    hash.add(bytes);
    return hash.value();
}

// Takes values off the front; zeros where there are too few bytes, and then ok() is false.
class Parser {
  public:
    explicit Parser(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <typename T>
    std::vector<T> take(size_t n) {
        ok_ = ok_ && n <= rest_.size() / sizeof(T);
        if (!ok_) return {};
        std::vector<T> values(n);
        if (n > 0) std::memcpy(values.data(), rest_.data(), n * sizeof(T));
        rest_ = rest_.subspan(n * sizeof(T));
        return values;
    }
    template <typename T>
    T take() {
        const std::vector<T> one = take<T>(1);
        return one.empty() ? T{} : one.front();
    }
    bool ok() const { return ok_; }
    bool at_end() const { return ok_ && rest_.empty(); }

  private:
    std::span<const std::byte> rest_;
    bool ok_ = true;
};

// The whole file; nothing, with errno set, if it cannot be read.
std::optional<std::vector<std::byte>> contents(int fd) {
    std::vector<std::byte> bytes;
    for (;;) {
        const size_t have = bytes.size();
        bytes.resize(have + (size_t{64} << 10));
        const ssize_t n = ::read(fd, bytes.data() + have, bytes.size() - have);
        bytes.resize(have + static_cast<size_t>(std::max<ssize_t>(n, 0)));
        if (n < 0 && errno != EINTR) return std::nullopt;
        if (n == 0 || bytes.size() > kLargestFile) return bytes;
    }
}

ProfileRead parse(std::span<const std::byte> bytes, const std::string &path, const ProfileKey &key) {
    const size_t n_magic = std::min(kMagic.size(), bytes.size());
    if (std::memcmp(bytes.data(), kMagic.data(), n_magic) != 0) {
        return {{}, cat(path, " is no profile of experts; it is left alone"), false};
    }
    ProfileRead damaged{{}, cat("the profile ", path, " is damaged or cut short"), true};
    if (bytes.size() < kMagic.size() + sizeof(uint64_t)) return damaged;
    Parser parser(bytes.subspan(kMagic.size(), bytes.size() - kMagic.size() - sizeof(uint64_t)));
    if (const auto version = parser.take<uint32_t>(); parser.ok() && version != kVersion) {
        return {{}, cat("the profile ", path, " is of format ", version, ", not ", kVersion), true};
    }
    uint64_t sum = 0;
    std::memcpy(&sum, &bytes[bytes.size() - sizeof(sum)], sizeof(sum));
    if (sum != checksum(bytes.first(bytes.size() - sizeof(sum)))) return damaged;

    const auto n_layers = parser.take<uint32_t>();
    const auto model = parser.take<uint64_t>();
    const auto experts = parser.take<uint32_t>(n_layers);
    if (parser.ok() && (model != key.model || experts != key.experts)) {
        return {{}, cat("the profile ", path, " is of another model; it is left alone"), false};
    }
    auto frequencies = parser.take<float>(std::accumulate(experts.begin(), experts.end(), size_t{0}));
    const bool sane =
        std::all_of(frequencies.begin(), frequencies.end(), [](float f) { return std::isfinite(f) && f >= 0; });
    if (!parser.at_end() || !sane) return damaged;
    return {std::move(frequencies), {}, true};
}

}  // namespace

ProfileKey::ProfileKey(uint64_t fingerprint, const Geometry &geometry) : model(fingerprint) {
    experts.reserve(geometry.layers.size());
    for (const LayerGeometry &layer : geometry.layers) experts.push_back(layer.n_expert);
}

ProfileRead read_profile(const std::string &path, const ProfileKey &key) {
    // Opening a pipe must not wait for its other end.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
        if (errno == ENOENT) return {};
        return {{}, cat("cannot read the profile ", path, ": ", std::strerror(errno)), false};
    }
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
        return {{}, cat("the profile ", path, " is not a regular file; it is left alone"), false};
    }
    const auto bytes = contents(file.get());
    if (!bytes) return {{}, cat("cannot read the profile ", path, ": ", std::strerror(errno)), false};
    return parse(*bytes, path, key);
}

void write_profile(const std::string &path, const ProfileKey &key, std::span<const float> frequencies) {
    assert(frequencies.size() == std::accumulate(key.experts.begin(), key.experts.end(), size_t{0}));
    std::vector<std::byte> bytes;
    append(bytes, std::span(kMagic));
    append(bytes, kVersion);
    append(bytes, static_cast<uint32_t>(key.experts.size()));
    append(bytes, key.model);
    append(bytes, std::span(std::as_const(key.experts)));
    append(bytes, frequencies);
    append(bytes, checksum(bytes));
    replace_file(path, bytes);
}

}  // namespace bmoe::cache
