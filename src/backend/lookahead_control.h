// Decides whether reading ahead pays: a wrong guess costs nothing while the disk is idle, and delays a needed read while it is
// busy. So the busier the disk, the surer the guesses must be.
#pragma once

#include <cstdint>

namespace bmoe::backend {

class LookaheadControl {
  public:
    static constexpr int kWindow = 16;  // tokens between decisions
    static constexpr int kRest = 256;   // tokens without guesses before the next trial

    // Share of the started reads that must turn out right, for a disk that is busy for `busy` (0..1) of the time.
    static double required_precision(double busy) { return 0.4 + 0.4 * busy; }

    // Called once per decoded token with totals so far: reads ahead that were started, and that were right; nanoseconds with a
    // read in flight, and of the clock. True if the layers of the next token should be guessed.
    bool next_token(uint64_t started, uint64_t right, uint64_t active_ns, uint64_t now_ns);

  private:
    bool on_ = true;
    int tokens_left_ = 0;
    bool begun_ = false;
    uint64_t started_ = 0, right_ = 0, active_ns_ = 0, now_ns_ = 0;  // at the start of the window
};

}  // namespace bmoe::backend
