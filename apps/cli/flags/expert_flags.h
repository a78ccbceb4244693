#pragma once

#include <string>

#include "cli/flags/flag_group.h"

namespace bmoe::cli {

// How experts are streamed.
class ExpertFlags : public FlagGroup {
  public:
    void add_to(CLI::App &app, CommandLine &out) override;
    void apply(CommandLine &out) override;

  private:
    CLI::App *app_ = nullptr;
    std::string moe_stream_ = "auto";  // empty for the option without a value, which is as good as "on"
    std::string cache_mb_ = "auto";
    std::string policy_ = "reap";
    std::string io_engine_ = "auto";
    std::string overlap_ = "on";
    std::string lookahead_ = "auto";
    bool no_odirect_ = false;
    bool no_warm_start_ = false;
};

}  // namespace bmoe::cli
