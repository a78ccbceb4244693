#include "telemetry/summary.h"

#include <gmock/gmock.h>

namespace bmoe::telemetry {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

RunSummary streamed() {
    RunSummary run;
    run.prompt_tokens = 5;
    run.generated = 3;
    run.step_seconds = {0.5, 1.5};
    run.streaming = true;
    run.threads = 2;
    run.stall_seconds = 0.4;
    run.expert_compute_seconds = 0.8;
    run.bound.expert_seconds = 1.4;
    run.hits = 30;
    run.misses = 10;
    run.policy = "reap";
    return run;
}

TEST(Summary, ComputeIsWhatTheExecutorMeasuredPlusTheTimeOutsideIt) {
    const auto lines = summary_lines(streamed());
    EXPECT_THAT(lines[0],
                StartsWith("generation: 3 tokens, 1.0000 s/token (1.00 tok/s), median 0.5000 s, p95 1.5000 s"));
    EXPECT_THAT(lines[1], StartsWith("compute: 0.7000 s/token, experts 0.4000 + rest 0.3000, "));
    EXPECT_THAT(lines[2], HasSubstr("compute 0.7000 + flash I/O 0.2000 s/token"));
    EXPECT_THAT(lines[3], StartsWith("moe-cache: 75.0% hit"));
}

TEST(Summary, WithoutAStepNothingIsMeasuredPerToken) {
    RunSummary run = streamed();
    run.step_seconds.clear();
    const auto lines = summary_lines(run);
    EXPECT_THAT(lines[0], HasSubstr("-1.0000 s/token (-1.00 tok/s), median -1.0000 s"));
    EXPECT_THAT(lines[1], StartsWith("compute: -1.0000 s/token, experts -1.0000 + rest -1.0000, "));
}

TEST(Summary, PlainRunsHaveNoLinesAboutExperts) {
    RunSummary run = streamed();
    run.streaming = false;
    const auto lines = summary_lines(run);
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_THAT(lines[1], StartsWith("compute: 1.0000 s/token, experts -1.0000 + rest -1.0000, "));
}

TEST(Summary, LinesOfWhatTheRunDidNotDoAreLeftOut) {
    RunSummary run = streamed();
    for (const char *line :
         {"moe-lookahead:", "moe-drop-prompt:", "moe-drop:", "moe-substitute:", "route-replay:", "lossy:"}) {
        EXPECT_THAT(summary_lines(run), Not(Contains(StartsWith(line))));
    }
    run.lookahead = true;
    EXPECT_THAT(summary_lines(run), Contains(StartsWith("moe-lookahead: -1.0% of misses foreseen")));
}

TEST(Summary, ReadingThatWasNotWaitedForIsAtTheRunsOwnPace) {
    RunSummary run = streamed();
    run.lookahead = true;
    run.read_bytes = uint64_t{400} << 20;
    run.read_active_seconds = 0.4;
    run.early_bytes = uint64_t{100} << 20;
    EXPECT_THAT(summary_lines(run),
                Contains(HasSubstr(", 50.0 MiB/token early: 0.0500 s/token of reading not waited for")));
}

TEST(Summary, LossyRoutingSaysWhatItCost) {
    RunSummary run = streamed();
    run.drops = true;
    run.substitutes = true;
    run.routed = 400;
    run.dropped = 10;
    run.dropped_mass = 0.0123;
    run.substituted = 40;
    run.substituted_mass = 0.05;
    EXPECT_THAT(summary_lines(run), Contains("moe-drop: dropped 10 of 400 routed (2.50%), mass lost 1.23%"));
    EXPECT_THAT(summary_lines(run), Contains("moe-substitute: substituted 40 of 400 routed (10.00%), mass 5.00%"));
}

TEST(Summary, MassIsNotMeasuredWhereNothingWasRouted) {
    RunSummary run = streamed();
    run.drops = true;
    run.substitutes = true;
    run.drops_in_prompt = true;
    const auto lines = summary_lines(run);
    EXPECT_THAT(lines, Contains("moe-drop-prompt: dropped 0 of 0 routed (-1.00%), mass lost -1.00%"));
    EXPECT_THAT(lines, Contains("moe-drop: dropped 0 of 0 routed (-1.00%), mass lost -1.00%"));
    EXPECT_THAT(lines, Contains("moe-substitute: substituted 0 of 0 routed (-1.00%), mass -1.00%"));
}

TEST(Summary, WhatMakesTheOutputAnotherIsTheLastLine) {
    RunSummary run = streamed();
    run.route_replay = "route-replay: a";
    run.lossy = "a token uses 3 experts";
    EXPECT_EQ(summary_lines(run).back(), "lossy: a token uses 3 experts");
    run.streaming = false;
    EXPECT_EQ(summary_lines(run).back(), "lossy: a token uses 3 experts");
}

}  // namespace
}  // namespace bmoe::telemetry
