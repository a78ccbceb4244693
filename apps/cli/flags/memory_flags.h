#pragma once

#include <optional>
#include <string>

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// Who gets the memory.
class MemoryFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    // After that of ExpertFlags.
    void apply(CommandLine &out) override;

  private:
    CLI::Option *ram_option_ = nullptr;
    std::string ram_;
    std::optional<uint64_t> ceiling_mib_;
    std::optional<uint64_t> floor_mib_;
    std::string dense_weights_ = "anon";
};

}  // namespace bmoe::cli
