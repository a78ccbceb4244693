#include "cache/slot_layout.h"

#include <algorithm>
#include <numeric>

#include "cache/arena.h"

namespace bmoe::cache {

namespace {

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Shares of a class are counted in 1/kWhole.
constexpr uint64_t kWhole = uint64_t{1} << 32;

uint64_t slots_for_share(const SizeClass &size_class, uint64_t share) {
    return std::max(size_class.fewest, size_class.experts * share / kWhole);
}

}  // namespace

uint64_t slice_room(uint64_t bytes, uint32_t block_size) { return round_up(bytes, block_size) + block_size; }

SlotLayout::SlotLayout(const Geometry &geometry) {
    for (const LayerGeometry &layer : geometry.layers) {
        std::vector<uint64_t> room;
        for (uint64_t bytes : layer.slice_bytes) room.push_back(slice_room(bytes, geometry.block_size));
        auto same =
            std::find_if(classes_.begin(), classes_.end(), [&](const SizeClass &c) { return c.slice_room == room; });
        if (same == classes_.end()) {
            classes_.emplace_back();
            same = classes_.end() - 1;
            same->slot_bytes = std::accumulate(room.begin(), room.end(), uint64_t{0});
            same->slice_room = std::move(room);
        }
        same->experts += layer.n_expert;
        same->fewest = std::max<uint64_t>(same->fewest, std::min(layer.top_k, layer.n_expert));
        class_of_layers_.push_back(static_cast<uint32_t>(same - classes_.begin()));
    }
}

bool SlotLayout::divide(uint64_t budget) {
    if (budget < smallest_bytes()) return false;
    const uint64_t usable = std::min(budget / Arena::page_size() * Arena::page_size(), whole_bytes());
    const auto bytes_for_share = [&](uint64_t share) {
        uint64_t total = 0;
        for (const SizeClass &c : classes_) total += slots_for_share(c, share) * c.slot_bytes;
        return total;
    };
    uint64_t fits = 0;  // the largest share that does
    uint64_t beyond = kWhole + 1;
    while (beyond - fits > 1) {
        const uint64_t middle = fits + (beyond - fits) / 2;
        (bytes_for_share(middle) <= usable ? fits : beyond) = middle;
    }
    for (SizeClass &c : classes_) c.slots = slots_for_share(c, fits);
    // What rounding down left over still holds a slot here and there.
    uint64_t left = usable - bytes_for_share(fits);
    for (SizeClass &c : classes_) {
        if (c.slot_bytes == 0) continue;
        const uint64_t more = std::min(left / c.slot_bytes, c.experts - c.slots);
        c.slots += more;
        left -= more * c.slot_bytes;
    }
    return true;
}

uint64_t SlotLayout::smallest_bytes() const {
    uint64_t total = 0;
    for (const SizeClass &c : classes_) total += c.fewest * c.slot_bytes;
    return round_up(total, Arena::page_size());
}

uint64_t SlotLayout::whole_bytes() const {
    uint64_t total = 0;
    for (const SizeClass &c : classes_) total += c.experts * c.slot_bytes;
    return round_up(total, Arena::page_size());
}

uint64_t SlotLayout::slot_bytes() const {
    uint64_t total = 0;
    for (const SizeClass &c : classes_) total += c.slots * c.slot_bytes;
    return round_up(total, Arena::page_size());
}

}  // namespace bmoe::cache
