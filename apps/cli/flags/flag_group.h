// A group of flags of the command line.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command_line.h"

namespace bmoe::cli {

class FlagGroup {
  public:
    FlagGroup() = default;
    virtual ~FlagGroup() = default;
    FlagGroup(const FlagGroup &) = delete;
    FlagGroup &operator=(const FlagGroup &) = delete;

    // Adds the flags. `app` and `out` outlive the group.
    virtual void add_to(CLI::App &app, CommandLine &out) = 0;

    // When all flags are parsed: what was said in words goes to `out`. Throws CLI::ValidationError where it makes no sense; what
    // has no effect is a line to stderr.
    virtual void apply(CommandLine &out) = 0;
};

}  // namespace bmoe::cli
