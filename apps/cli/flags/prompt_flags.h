#pragma once

#include <string>

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// What is to be done: continue or answer a prompt, or hold a conversation.
class PromptFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;

  private:
    void take_prompt(CommandLine &out) const;

    CLI::App *app_ = nullptr;
    bool raw_ = false;
};

}  // namespace bmoe::cli
