// What the value of a flag must be, where CLI11 does not say it well enough.
#pragma once

#include <CLI/CLI.hpp>

namespace bmoe::cli {

// A number within [low, high]. CLI::Range takes nan for one.
CLI::Validator number_from(double low, double high);

// The name of a file: not empty, as from a variable that is not set.
CLI::Validator file_name();

}  // namespace bmoe::cli
