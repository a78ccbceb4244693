// Named cells: what a benchmark run does, apart from model, prompt and number of tokens, which the command line gives.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bmoe::bench {

struct Cell {
    std::string name;
    uint64_t memory_mib = 0;  // limit of the run's memory cgroup; 0: none
    int read_ahead_kib = -1;  // of the model's block device; -1: left as it is
    uint32_t prompt_tokens = 64;
    uint32_t tokens = 0;                          // to generate; 0: as the command line says
    bool replays = false;                         // decodes along a route trace
    std::map<std::string, std::string> settings;  // of the engine; engine_settings.h knows their names
};

// Whether its runs start with a profile of the experts used most. The session makes it, by a run of the cell on other text.
bool starts_warm(const Cell &cell);

// All cells, in the order in which they are listed. Names are unique.
const std::vector<Cell> &all_cells();

// The cells that match comma-separated globs, in the order of the globs; each cell once. Throws bmoe::Error naming a glob that
// matches none.
std::vector<Cell> select_cells(const std::vector<Cell> &cells, std::string_view globs);

// The cell of this name. Throws bmoe::Error.
const Cell &find_cell(const std::vector<Cell> &cells, std::string_view name);

}  // namespace bmoe::bench
