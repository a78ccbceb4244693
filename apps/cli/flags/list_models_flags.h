#pragma once

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// `--list-models DIR`: runs nothing, so no other flag has a meaning beside it.
class ListModelsFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;

  private:
    CLI::App *app_ = nullptr;
};

}  // namespace bmoe::cli
