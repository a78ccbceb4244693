// The CSV of a run: its configuration, a row for each token, a summary. The form is a contract (docs/telemetry.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "telemetry/memory_usage.h"
#include "telemetry/process_usage.h"

namespace bmoe::telemetry {

// Of streamed experts. Times in seconds; -1: not measured.
struct ExpertFigures {
    double stall = -1;    // the computing thread had nothing ready and waited for reads
    double compute = -1;  // the compute threads multiplied by experts, on average
    int64_t reads = -1, bytes = -1;
    int64_t hits = -1, misses = -1;            // experts
    int64_t speculative_bytes = -1;            // of `bytes`: read before they were asked for
    int64_t guessed = -1, guessed_right = -1;  // experts whose reading began on a guess; those that were then needed
    int64_t wasted_bytes = -1;                 // read on a guess that was wrong
};

// Of routing that was changed to save reads.
struct LossyFigures {
    int64_t dropped = -1, substituted = -1;  // experts; -1: nothing is streamed
    double mass_forgone = -1;                // router weight of these, in tokens x layers
};

// What happened between two moments, and the memory at the second.
struct CsvRow {
    uint32_t turn = 0;    // request of the run, from 0
    uint32_t tokens = 0;  // a prompt's; a token's number, from 1
    double seconds = 0;
    ExpertFigures experts;
    LossyFigures lossy;
    ProcessUsage usage;
    MemoryUsage memory;
};

// Not thread-safe. What cannot be written is the file's error.
class CsvLog {
  public:
    static constexpr int kVersion = 1;

    // `file` must outlive it.
    explicit CsvLog(OutputFile &file) : file_(file) {}

    // The preamble; values have no line ends.
    void begin(const std::vector<std::pair<std::string, std::string>> &configuration);
    void add_prompt(const CsvRow &row);
    void add_token(const CsvRow &row);  // handed to the system at once
    // Sums of the tokens' rows; of memory the lowest MemAvailable, the most swap, and `peak_rss`.
    void add_summary(int64_t peak_rss);

  private:
    void write(const char *kind, const CsvRow &row);

    OutputFile &file_;
    CsvRow sum_;
};

}  // namespace bmoe::telemetry
