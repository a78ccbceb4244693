// log2 and exp2 for scores of experts: a few operations, no branches, so that loops over experts vectorise; built of basic
// IEEE operations only, so that a replay gives the same result on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace bmoe::cache {

// For normal x > 0; absolute error below 1e-5.
inline float fast_log2(float x) {
    // The mantissa is taken around 1 (from sqrt(1/2) to sqrt(2)), where the series of atanh converges fast.
    const auto bits = std::bit_cast<int32_t>(x);
    const int32_t exponent = (bits - 0x3f3504f3) >> 23;
    const auto m = std::bit_cast<float>(bits - (exponent << 23));
    const float t = (m - 1.0f) / (m + 1.0f);
    const float t2 = t * t;
    return static_cast<float>(exponent) +
           t * (2.88539008f + t2 * (0.96179669f + t2 * (0.57707802f + t2 * 0.41219859f)));
}

// For x from -120 to 120; relative error below 1e-6.
inline float fast_exp2(float x) {
    const auto whole = static_cast<int32_t>(x + 128.5f) - 128;
    const float y = (x - static_cast<float>(whole)) * 0.693147181f;
    const float poly =
        1.0f +
        y * (1.0f + y * (0.5f + y * (0.166666667f + y * (0.0416666667f + y * (0.00833333333f + y * 0.00138888889f)))));
    return poly * std::bit_cast<float>((whole + 127) << 23);
}

}  // namespace bmoe::cache
