// Tables of a session's results.
#pragma once

#include <string>
#include <vector>

#include "bench/cells.h"
#include "bench/run_record.h"

namespace bmoe::bench {

// Columns as wide as their widest text, the first to the left and the others to the right. The first row is the heading.
std::string format_table(const std::vector<std::vector<std::string>> &rows);

// Medians of every cell over its runs that succeeded, with their number; "-" for what was not measured. Failed runs follow, each
// with its error.
std::string median_table(const std::vector<Cell> &cells, const std::vector<RunRecord> &records);

// The first cell (A) against each other one (B): median (lowest..highest) of A/B over the pairs. Empty with fewer than two
// cells.
std::string ratio_table(const std::vector<Cell> &cells, const std::vector<RunRecord> &records);

}  // namespace bmoe::bench
