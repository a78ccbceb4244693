#include "cache/fast_math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bmoe::cache {
namespace {

TEST(FastMath, Log2IsCloseOverTheWholeRange) {
    for (float x = 1e-30f; x < 1e30f; x *= 1.0137f) EXPECT_NEAR(fast_log2(x), std::log2(x), 1e-5) << x;
}

TEST(FastMath, Log2OfPowersOfTwoIsExact) {
    for (int e = -100; e <= 100; ++e) EXPECT_EQ(fast_log2(std::ldexp(1.0f, e)), static_cast<float>(e));
}

TEST(FastMath, Exp2IsCloseOverTheWholeRange) {
    for (float x = -120.0f; x <= 120.0f; x += 0.0371f) EXPECT_NEAR(fast_exp2(x) / std::exp2(x), 1.0f, 1e-6f) << x;
}

}  // namespace
}  // namespace bmoe::cache
