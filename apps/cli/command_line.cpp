#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "bmoe_version.h"
#include "cli/flags/computation_flags.h"
#include "cli/flags/expert_flags.h"
#include "cli/flags/generation_flags.h"
#include "cli/flags/list_models_flags.h"
#include "cli/flags/lossy_flags.h"
#include "cli/flags/memory_flags.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/output_flags.h"
#include "cli/flags/perplexity_flags.h"
#include "cli/flags/prompt_flags.h"
#include "cli/flags/session_flags.h"

namespace bmoe::cli {

namespace {

constexpr const char *kExamples = R"(Examples:
  bmoe-cli -m model.gguf -p "Once upon a time"
      stream the experts if the model does not fit into memory; the cache takes what is free
  bmoe-cli -m model-00001-of-00003.gguf --ram 6G --chat -p "What is a router?"
      a split model, 6 GiB for all of it, the model's own chat template
  bmoe-cli -m model.gguf --moe-stream --cache-mb 4000 -p "Once upon a time"
      stream in any case, with 4000 MiB for experts
  bmoe-cli -m model.gguf
      a conversation, in a terminal
  bmoe-cli perplexity -m model.gguf --moe-stream --cache-mb 4000 -f text.txt --quality-budget 1
      what the model makes of a text, here to see what a lossy setting costs
  bmoe-cli --list-models ~/models
      which models are there, and what fits into memory now
  bmoe-cli -m model.gguf --moe-stream off -p "Once upon a time"
      the same file as plain llama.cpp with mmap, for comparison
)";

// The arguments, last one first as CLI11 wants them, with llama.cpp's short names of several letters, which CLI11 does not
// know, spelled out.
std::vector<std::string> with_long_names(int argc, char **argv) {
    constexpr std::pair<std::string_view, const char *> kNames[] = {
        {"-ctk", "--cache-type-k"}, {"-ctv", "--cache-type-v"}, {"-fa", "--flash-attn"}, {"-ub", "--ubatch"}};
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) {
        const auto *name = std::find_if(std::begin(kNames), std::end(kNames),
                                        [&](const auto &names) { return names.first == argv[i]; });
        arguments.emplace_back(name != std::end(kNames) ? name->second : argv[i]);
    }
    return arguments;
}

}  // namespace

Parsed parse_command_line(int argc, char **argv, CommandLine &out, int &exit_code) {
    CLI::App app("Runs Mixture-of-Experts language models (GGUF) that are larger than memory.", "bmoe-cli");
    app.footer(kExamples);
    app.set_version_flag("--version", std::string("bmoe ") + kVersion + " (llama.cpp " +
                                          std::string(kLlamaCppCommit).substr(0, 12) + ")");
    app.get_formatter()->column_width(34);
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);

    std::vector<std::unique_ptr<FlagGroup>> groups;
    groups.push_back(std::make_unique<ModelFlags>());
    groups.push_back(std::make_unique<ListModelsFlags>());
    groups.push_back(std::make_unique<PromptFlags>());
    groups.push_back(std::make_unique<PerplexityFlags>());
    groups.push_back(std::make_unique<GenerationFlags>());
    groups.push_back(std::make_unique<SessionFlags>());
    groups.push_back(std::make_unique<ExpertFlags>());
    groups.push_back(std::make_unique<LossyFlags>());
    groups.push_back(std::make_unique<MemoryFlags>());
    groups.push_back(std::make_unique<ComputationFlags>());
    groups.push_back(std::make_unique<OutputFlags>());
    for (const auto &group : groups) {
        group->add_to(app, out);
    }

    try {
        app.parse(with_long_names(argc, argv));
        for (const auto &group : groups) {
            group->apply(out);
        }
    } catch (const CLI::ParseError &error) {
        exit_code = app.exit(error) == 0 ? 0 : 2;
        return Parsed::kExit;
    }
    return Parsed::kRun;
}

}  // namespace bmoe::cli
