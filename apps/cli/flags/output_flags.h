#pragma once

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// What is written down about a run.
class OutputFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;
};

}  // namespace bmoe::cli
