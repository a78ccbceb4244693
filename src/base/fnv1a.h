// A hash against accidents, not against intent: tells files apart and notices damage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bmoe {

// FNV-1a, 64 bits, of everything added so far.
class Fnv1a {
  public:
    void add(std::span<const std::byte> bytes) {
        for (const std::byte byte : bytes) {
            value_ = (value_ ^ static_cast<uint64_t>(byte)) * 1099511628211U;
        }
    }
    // With its length, so that neighbours do not run together.
    void add(std::string_view text) {
        add(uint64_t{text.size()});
        add(std::as_bytes(std::span(text)));
    }
    void add(uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }

    uint64_t value() const { return value_; }

  private:
    uint64_t value_ = 14695981039346656037U;
};

}  // namespace bmoe
