#pragma once

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// `bmoe-cli perplexity`.
class PerplexityFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;

  private:
    CLI::App *app_ = nullptr;
};

}  // namespace bmoe::cli
