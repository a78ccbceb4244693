#include "backend/staging.h"

#include <sys/mman.h>

#include <utility>

#include "base/error.h"

namespace bmoe::backend {

namespace {
constexpr uint64_t kPage = 4096;
}

Staging::Staging(uint32_t rooms, uint64_t room_bytes) {
    const uint64_t stride = (room_bytes + kPage - 1) / kPage * kPage;
    bytes_ = rooms * stride;
    if (bytes_ == 0) {
        return;
    }
    void *memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw Error(cat("cannot map ", bytes_ >> 20, " MiB of staging memory for experts: out of memory"));
    }
    base_ = static_cast<std::byte *>(memory);
    free_.reserve(rooms);
    for (uint32_t i = rooms; i-- > 0;) {
        free_.push_back(base_ + i * stride);
    }
}

Staging::~Staging() {
    if (base_ != nullptr) {
        munmap(base_, bytes_);
    }
}

Staging::Staging(Staging &&other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), free_(std::move(other.free_)) {}

Staging &Staging::operator=(Staging &&other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
    return *this;
}

std::byte *Staging::take() {
    if (free_.empty()) {
        return nullptr;
    }
    std::byte *room = free_.back();
    free_.pop_back();
    return room;
}

void Staging::give_back(std::byte *room) { free_.push_back(room); }

}  // namespace bmoe::backend
