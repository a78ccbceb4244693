// One run as it is written to the results: what was measured, or why there is nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "bench/child.h"

namespace bmoe::bench {

struct RunRecord {
    size_t cell = 0;         // index among the cells of the session
    int pair = 0;            // from 1
    std::string error;       // empty: the run succeeded
    nlohmann::json figures;  // what run-one printed; null after a failure
    nlohmann::json context;  // everything else of the record: cell, limits, state of the machine

    bool ok() const { return error.empty(); }
    // Empty if the run failed or could not measure it.
    std::optional<double> figure(const std::string &name) const;
    nlohmann::json to_json() const;
};

// Every name that run-one's object must hold; null stands for what a run of that kind does not have.
std::span<const char *const> figure_names();

// Judges a finished run-one: sets `figures`, or `error` to the line in which it says what was wrong.
void judge(const ChildOutput &output, RunRecord &record);

}  // namespace bmoe::bench
