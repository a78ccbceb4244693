// How likely an expert is to be used at the next visit of its layer, learned from how long ago and how often it was used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bmoe::cache {

// One table for all layers: rows are ages, columns are frequencies. Each cell counts how often an expert that was in it was
// used at the next visit; old counts fade. Starts from the guess that an expert is used as often as it was.
class HazardTable {
  public:
    static constexpr int kAges = 9;
    static constexpr int kFrequencies = 14;
    // Columns are padded to 16, so that a row starts at age_row << 4.
    static constexpr int kStride = 16;
    // Visits since the last use, from which on age makes no difference.
    static constexpr uint8_t kOldest = 34;

    HazardTable();

    // First cell of the row for an age of 0..kOldest visits.
    static uint8_t row(uint8_t age) { return kRow[age]; }

    // Position on the frequency axis: column = clamp(floor(position), 0, 13), and column + 0.5 is a cell's centre.
    static float position(float log2_frequency) { return (log2_frequency + 9.0f) * 1.6f; }

    static int column(float position) { return static_cast<int>(clamp(position)); }

    // Adds `weight` observations in each cell times its `seen` count, of which `used` found the expert used.
    using Counts = std::array<uint16_t, kAges * kStride>;
    void learn(const Counts &seen, const Counts &used, float weight);

    // Probability of use at the next visit, interpolated along the frequency axis.
    float at(uint8_t row, float position) const {
        const float x = clamp(position - 0.5f);
        const int column = static_cast<int>(x);
        const float *cell = rate_.data() + row + column;
        return cell[0] + (x - static_cast<float>(column)) * (cell[1] - cell[0]);
    }

  private:
    static const std::array<uint8_t, kOldest + 1> kRow;

    static float clamp(float x) {
        constexpr float kLast = kFrequencies - 1;
        return x < 0.0f ? 0.0f : (x > kLast ? kLast : x);
    }

    void update_rates();

    std::array<float, kAges * kStride> used_{}, seen_{}, rate_{};
};

}  // namespace bmoe::cache
