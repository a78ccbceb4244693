#include "backend/lookahead_control.h"

#include <algorithm>

namespace bmoe::backend {

bool LookaheadControl::next_token(uint64_t started, uint64_t right, uint64_t active_ns, uint64_t now_ns) {
    if (begun_ && --tokens_left_ > 0) {
        return on_;
    }
    if (begun_ && on_) {
        // Where nothing was missing, guessing costs its arithmetic all the same.
        const auto reads = static_cast<double>(started - started_);
        const double precision = reads > 0 ? static_cast<double>(right - right_) / reads : 0;
        const auto elapsed = static_cast<double>(std::max<uint64_t>(1, now_ns - now_ns_));
        on_ = precision >= required_precision(std::min(1.0, static_cast<double>(active_ns - active_ns_) / elapsed));
    } else {
        on_ = true;
    }
    begun_ = true;
    tokens_left_ = on_ ? kWindow : kRest;
    started_ = started;
    right_ = right;
    active_ns_ = active_ns;
    now_ns_ = now_ns;
    return on_;
}

}  // namespace bmoe::backend
