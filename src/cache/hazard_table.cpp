#include "cache/hazard_table.h"

#include <algorithm>

#include "cache/fast_math.h"

namespace bmoe::cache {

namespace {

constexpr std::array<uint8_t, HazardTable::kAges> kFirstAge = {0, 1, 2, 3, 4, 6, 10, 18, 34};
constexpr float kPriorWeight = 30.0f;  // observations the initial guess counts for
constexpr float kFull = 4000.0f;       // observations at which a cell forgets half

constexpr std::array<uint8_t, HazardTable::kOldest + 1> make_rows() {
    std::array<uint8_t, HazardTable::kOldest + 1> rows{};
    for (int age = 0, row = 0; age <= HazardTable::kOldest; ++age) {
        if (row + 1 < HazardTable::kAges && age >= kFirstAge[static_cast<size_t>(row) + 1]) ++row;
        rows[static_cast<size_t>(age)] = static_cast<uint8_t>(row * HazardTable::kStride);
    }
    return rows;
}

}  // namespace

constexpr std::array<uint8_t, HazardTable::kOldest + 1> HazardTable::kRow = make_rows();

HazardTable::HazardTable() {
    for (int row = 0; row < kAges; ++row) {
        for (int column = 0; column < kStride; ++column) {
            const int cell = row * kStride + column;
            const float centre = (static_cast<float>(std::min(column, kFrequencies - 1)) + 0.5f) / 1.6f - 9.0f;
            const float frequency = fast_exp2(centre);
            seen_[static_cast<size_t>(cell)] = kPriorWeight;
            used_[static_cast<size_t>(cell)] = kPriorWeight * std::min(0.9f, frequency * (row == 0 ? 1.5f : 1.0f));
        }
    }
    update_rates();
}

void HazardTable::learn(const Counts &seen, const Counts &used, float weight) {
    for (size_t cell = 0; cell < seen_.size(); ++cell) {
        const float scale = seen_[cell] > kFull ? 0.5f : 1.0f;
        seen_[cell] = seen_[cell] * scale + weight * static_cast<float>(seen[cell]);
        used_[cell] = used_[cell] * scale + weight * static_cast<float>(used[cell]);
    }
    update_rates();
}

void HazardTable::update_rates() {
    for (size_t cell = 0; cell < rate_.size(); ++cell) rate_[cell] = used_[cell] / seen_[cell];
    // Lets at() interpolate beyond the last column without a special case.
    for (size_t last = kFrequencies - 1; last < rate_.size(); last += kStride) rate_[last + 1] = rate_[last];
}

}  // namespace bmoe::cache
