#pragma once

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// Reading less than the router asks for: the output changes.
class LossyFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;
};

}  // namespace bmoe::cli
