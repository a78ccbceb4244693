// The command line: what a user can say, and what it means.
#pragma once

#include <cstdint>
#include <string>

#include "engine/options.h"
#include "engine/sampling.h"

namespace bmoe::cli {

// What to write down about a run; empty: nothing.
struct RecordOptions {
    bool progress = false;                   // lines on stderr
    std::string csv, route_trace, io_trace;  // files
    uint32_t route_logits = 0;               // router scores of each token and layer in the route trace
};

enum class Mode { kOneShot, kChat, kSession, kListModels, kPerplexity };

struct CommandLine {
    Mode mode = Mode::kOneShot;
    engine::Options engine;
    std::string prompt;
    std::string prompt_file;                      // it is from; may be - for standard input
    static constexpr int kAsManyAsFit = 1 << 30;  // into the context
    int max_tokens = 128;
    bool chat = false;        // in the model's chat template
    bool no_think = false;    // in a chat: without reasoning
    std::string list_models;  // the folder
    engine::Sampling sampling;
    RecordOptions record;
    std::string streaming_flags;  // those given that have no effect where nothing is streamed
};

enum class Parsed { kRun, kExit };

// Fills `out`. kExit: nothing to run (--help, --version, or an error that was printed); `exit_code` then holds the status.
Parsed parse_command_line(int argc, char **argv, CommandLine &out, int &exit_code);

}  // namespace bmoe::cli
