#include "telemetry/memory_usage.h"

#include <gtest/gtest.h>

#include "telemetry/process_usage.h"

namespace bmoe::telemetry {
namespace {

TEST(MemoryUsage, KnowsThisProcessAndTheMachine) {
    const MemoryUsage usage = MemoryUsage::now();
    EXPECT_GT(usage.rss, 0);
    EXPECT_LE(usage.rss, peak_rss_bytes());
    EXPECT_GE(usage.swapped, 0);
    EXPECT_GT(usage.available, 0);
    EXPECT_EQ(MemoryUsage{}.rss, -1);
}

}  // namespace
}  // namespace bmoe::telemetry
