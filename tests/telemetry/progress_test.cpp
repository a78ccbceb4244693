#include "telemetry/progress.h"

#include <gtest/gtest.h>

namespace bmoe::telemetry {
namespace {

TEST(Progress, IsALineOfKeysAndValues) {
    EXPECT_EQ(
        progress_line({"decode", 20, 127, 2.0, 0.864, 10.0 * 1024 * 1024, 0.25, int64_t{7} << 30}),
        "progress: phase=decode tokens=20 of=127 seconds=2.000 tok_per_s=10.00 hit_percent=86.4 mib_per_token=0.5 "
        "stall_s_per_token=0.0125 mem_available_mib=7168 lossy=0");
}

TEST(Progress, WhatIsNotMeasuredIsNotZero) {
    EXPECT_EQ(progress_line({"prompt", 0, 5, 0}),
              "progress: phase=prompt tokens=0 of=5 seconds=0.000 tok_per_s=-1.00 hit_percent=-1.0 mib_per_token=-1.0 "
              "stall_s_per_token=-1.0000 mem_available_mib=-1 lossy=0");
}

TEST(Progress, OfLossyOutputIsMarked) {
    Progress progress;
    progress.lossy = true;
    EXPECT_TRUE(progress_line(progress).ends_with(" lossy=1")) << progress_line(progress);
}

}  // namespace
}  // namespace bmoe::telemetry
