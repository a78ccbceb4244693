#include "telemetry/progress.h"

#include <cstdio>

#include "base/mib.h"

namespace bmoe::telemetry {

namespace {

// -1 where either is not known.
double ratio(double value, double per) { return value >= 0 && per > 0 ? value / per : -1; }

}  // namespace

std::string progress_line(const Progress &progress) {
    const auto tokens = static_cast<double>(progress.tokens);
    char text[320];
    std::snprintf(text, sizeof(text),
                  "progress: phase=%s tokens=%llu of=%llu seconds=%.3f tok_per_s=%.2f hit_percent=%.1f "
                  "mib_per_token=%.1f stall_s_per_token=%.4f mem_available_mib=%.0f lossy=%d",
                  progress.phase, static_cast<unsigned long long>(progress.tokens),
                  static_cast<unsigned long long>(progress.of), progress.seconds, ratio(tokens, progress.seconds),
                  progress.hit_rate < 0 ? -1.0 : 100 * progress.hit_rate, ratio(progress.read_bytes / kMiB, tokens),
                  ratio(progress.stall_seconds, tokens),
                  progress.available_bytes < 0 ? -1.0 : static_cast<double>(progress.available_bytes) / kMiB,
                  progress.lossy ? 1 : 0);
    return text;
}

}  // namespace bmoe::telemetry
