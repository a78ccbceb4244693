// A session: cells run in turn (A B A B ...), each run a fresh process, and everything written down.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "bench/cells.h"
#include "bench/page_cache.h"
#include "bench/run_record.h"

namespace bmoe::bench {

struct SessionOptions {
    std::string program;                      // a run is `program run-one REQUEST`, REQUEST being JSON (run_one.h)
    std::string model;                        // path of a GGUF, or of any shard of one
    std::vector<std::string> model_files;     // all of its shards
    std::string prompt;                       // path of the text that prompts are cut from
    std::string trace;                        // path of a route trace, for cells that replay one
    std::string out = "bench-results.jsonl";  // a line of JSON is appended for every run
    int pairs = 5;                            // runs of each cell
    uint32_t tokens = 128;                    // to generate where the cell does not say
    int threads = 2;
    DropCache drop = DropCache::kAll;
};

// Runs `pairs` times all cells in their order. A run that fails, or cannot be had as its cell wants it, is recorded as failed;
// only a memory limit that cannot be made is done without, and recorded. Progress goes to `progress`, a line each. Throws
// bmoe::Error before the first run if the options do not suffice, later if the results cannot be written. `interrupted` is set
// by SIGINT, SIGTERM or SIGHUP, which end the session after putting the machine's settings back.
std::vector<RunRecord> run_session(const std::vector<Cell> &cells, const SessionOptions &options,
                                   std::ostream &progress, bool &interrupted);

}  // namespace bmoe::bench
