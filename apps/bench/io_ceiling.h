// What the disk delivers through the engine's own reader: the ceiling for expert streaming, and what reaching it costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/model_file.h"
#include "io/read_pool.h"

namespace bmoe::bench {

struct IoCeilingOptions {
    std::vector<io::ReadEngine> engines = {io::ReadEngine::kLanes, io::ReadEngine::kUring};
    std::vector<int> in_flight = {1, 2, 4, 8};
    int rounds = 5;
    double seconds_per_cell = 0.5;  // in each round

    // 0: reads are queued without end. Otherwise so many at a time, and the next when all of them are there, as the misses of
    // one layer after the other.
    size_t burst = 0;
};

// One cell of the table, over all rounds.
struct IoCeilingRow {
    io::ReadEngine engine = io::ReadEngine::kLanes;
    int in_flight = 0;
    uint64_t request_bytes = 0;  // a slice of the model, without the rounding to blocks
    double gib_per_s_median = 0;
    double gib_per_s_min = 0;
    double gib_per_s_max = 0;
    double cpu_s_per_gib = 0;  // user and system time of the whole process
};

// Reads random slices of `model`, for each size that its slices have, into memory in huge pages. Every round measures all
// cells once, so that cells are compared under the same weather. Throws bmoe::Error.
std::vector<IoCeilingRow> measure_io_ceiling(const gguf::ModelFile &model, const IoCeilingOptions &options);

// The table of `bmoe-bench io`, on standard output. Throws bmoe::Error.
void print_io_ceiling(const std::string &model, const IoCeilingOptions &options);

}  // namespace bmoe::bench
