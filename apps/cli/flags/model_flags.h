#pragma once

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// Which model, and how large a context.
class ModelFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;

  private:
    bool no_repack_ = false;
};

}  // namespace bmoe::cli
