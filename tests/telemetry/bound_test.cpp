#include "telemetry/bound.h"

#include <gtest/gtest.h>

namespace bmoe::telemetry {
namespace {

BoundInput ten_tokens() {
    BoundInput input;
    input.tokens = 10;
    input.seconds = 1.0;
    input.expert_seconds = 0.7;
    input.splits = 480;
    input.cached_splits = 100;
    input.cached_seconds = 0.1;  // 1 ms each: 0.48 s if all were
    input.needed_bytes = 1'000'000'000;
    input.bandwidth = 2e9;
    return input;
}

TEST(Bound, AddsCachedSplitsToTheRestOfTheModel) {
    const Bound bound = bound_of(ten_tokens());
    EXPECT_DOUBLE_EQ(bound.compute, 0.078);
    EXPECT_DOUBLE_EQ(bound.io, 0.05);
    EXPECT_DOUBLE_EQ(bound.bound, 0.078);
    EXPECT_DOUBLE_EQ(bound.reached, 0.78);
    EXPECT_NE(bound_line(ten_tokens()).find("bound by compute, 78% reached"), std::string::npos);
}

TEST(Bound, TheSlowerOfTheTwoBinds) {
    BoundInput input = ten_tokens();
    input.bandwidth = 1.25e9;
    EXPECT_DOUBLE_EQ(bound_of(input).bound, 0.08);
    EXPECT_NE(bound_line(input).find("bound by I/O, 80% reached"), std::string::npos);
}

TEST(Bound, WhatIsNotMeasuredIsNotZero) {
    BoundInput input = ten_tokens();
    input.cached_splits = 3;
    EXPECT_EQ(bound_of(input).compute, -1);
    EXPECT_EQ(bound_of(input).reached, -1);
    EXPECT_NE(bound_line(input).find("not measured"), std::string::npos);
    input = ten_tokens();
    input.bandwidth = 0;
    EXPECT_EQ(bound_of(input).io, -1);
    EXPECT_EQ(bound_of(input).reached, -1);
    EXPECT_EQ(bound_of(BoundInput{}).reached, -1);
}

PromptBoundInput prompt() {
    return {.tokens = 100, .seconds = 5, .stall_seconds = 1, .needed_bytes = 6'000'000'000, .bandwidth = 2e9};
}

TEST(Bound, APromptComputesWhenItDoesNotWait) {
    const Bound bound = bound_of(prompt());
    EXPECT_DOUBLE_EQ(bound.compute, 4);
    EXPECT_DOUBLE_EQ(bound.io, 3);
    EXPECT_DOUBLE_EQ(bound.reached, 0.8);
    EXPECT_EQ(bound_line(prompt()),
              "prompt-bound: compute 4.000 s, I/O 3.000 s (5722 MiB at 1.86 GiB/s), bound by compute, 80% reached");
    PromptBoundInput slow = prompt();
    slow.bandwidth = 1.25e9;
    EXPECT_NE(bound_line(slow).find("bound by I/O, 96% reached"), std::string::npos);
}

TEST(Bound, OfAPromptWithoutTokensNothingIsMeasured) {
    EXPECT_EQ(
        bound_line(PromptBoundInput{}),
        "prompt-bound: compute -1.000 s, I/O -1.000 s (-1 MiB at -1.00 GiB/s), bound by not measured, -1% reached");
    PromptBoundInput unknown = prompt();
    unknown.bandwidth = 0;
    EXPECT_EQ(bound_of(unknown).io, -1);
    EXPECT_EQ(bound_of(unknown).reached, -1);
}

}  // namespace
}  // namespace bmoe::telemetry
