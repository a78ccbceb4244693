// The command line: what a user can say, and what it means.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options.h"
#include "engine/sampling.h"

namespace bmoe::cli {

enum class Mode { kOneShot, kChat, kSession };

struct CommandLine {
    Mode mode = Mode::kOneShot;
    engine::Options engine;
    std::string prompt;
    int max_tokens = 128;
    bool chat = false;
    engine::Sampling sampling;
    std::string streaming_flags;  // those given that have no effect where nothing is streamed
};

enum class Parsed { kRun, kExit };

// Fills `out`. kExit: nothing to run (--help, --version, or an error that was printed); `exit_code` then holds the status.
Parsed parse_command_line(int argc, char **argv, CommandLine &out, int &exit_code);

}  // namespace bmoe::cli
