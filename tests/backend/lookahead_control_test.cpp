#include "backend/lookahead_control.h"

#include <gtest/gtest.h>

namespace bmoe::backend {
namespace {

// Tokens of 100 ns with two reads ahead each.
class Decode {
  public:
    bool token(double precision, double busy) {
        started_ += 100;
        right_ += static_cast<uint64_t>(100 * precision);
        active_ns_ += static_cast<uint64_t>(100 * busy);
        now_ns_ += 100;
        return control_.next_token(started_, right_, active_ns_, now_ns_);
    }
    bool tokens(int n, double precision, double busy) {
        bool on = false;
        for (int i = 0; i < n; ++i) {
            on = token(precision, busy);
        }
        return on;
    }

  private:
    LookaheadControl control_;
    uint64_t started_ = 0, right_ = 0, active_ns_ = 0, now_ns_ = 1000;
};

TEST(LookaheadControl, StartsOnAndStaysOnWhileGuessesAreRight) {
    Decode run;
    EXPECT_TRUE(run.token(0.8, 0.5));
    EXPECT_TRUE(run.tokens(10 * LookaheadControl::kWindow, 0.8, 0.5));
}

TEST(LookaheadControl, SwitchesOffWhereGuessesAreWrongAndTriesAgainLater) {
    Decode run;
    EXPECT_FALSE(run.tokens(LookaheadControl::kWindow + 1, 0.2, 0.5));
    EXPECT_FALSE(run.tokens(LookaheadControl::kRest - 1, 0.2, 0.5));
    EXPECT_TRUE(run.token(0.2, 0.5));
    EXPECT_FALSE(run.tokens(LookaheadControl::kWindow, 0.2, 0.5));
}

TEST(LookaheadControl, ABusyDiskWantsSurerGuesses) {
    Decode idle;
    EXPECT_TRUE(idle.tokens(3 * LookaheadControl::kWindow, 0.6, 0.2));
    Decode busy;
    EXPECT_FALSE(busy.tokens(3 * LookaheadControl::kWindow, 0.6, 0.95));
}

TEST(LookaheadControl, RestsWhereThereIsNothingToRead) {
    LookaheadControl control;
    int on = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
        on += control.next_token(0, 0, 0, i * 100) ? 1 : 0;
    }
    EXPECT_GT(on, 0);
    EXPECT_LT(on, 100);
}

}  // namespace
}  // namespace bmoe::backend
