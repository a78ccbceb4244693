// What a run was done with, every default and "auto" resolved, for the preamble of its CSV.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "engine/engine.h"

namespace bmoe::cli {

// Names and values, in the order to be written.
std::vector<std::pair<std::string, std::string>> run_configuration(const engine::Engine &engine,
                                                                   const CommandLine &command);

}  // namespace bmoe::cli
