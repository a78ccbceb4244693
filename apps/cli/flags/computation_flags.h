#pragma once

#include <string>

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// Threads, and what llama.cpp computes with.
class ComputationFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;

  private:
    std::string flash_attention_ = "auto";
    std::string ubatch_ = "auto";
};

}  // namespace bmoe::cli
