#pragma once

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// How much to generate, and how tokens are chosen.
class GenerationFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;

  private:
    CLI::Option *predict_ = nullptr;
};

}  // namespace bmoe::cli
