#include "backend/staging.h"

namespace bmoe::backend {

namespace {

uint64_t stride(uint64_t room_bytes) {
    constexpr uint64_t kAlignment = 4096;
    return (room_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

uint64_t Staging::bytes(uint32_t rooms, uint64_t room_bytes) { return rooms * stride(room_bytes); }

Staging::Staging(uint32_t rooms, uint64_t room_bytes) : arena_(bytes(rooms, room_bytes)) {
    arena_.prefault();
    free_.reserve(rooms);
    for (uint32_t i = rooms; i-- > 0;) {
        free_.push_back(arena_.data() + i * stride(room_bytes));
    }
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
