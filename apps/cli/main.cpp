#include "cli/chat/chat.h"
#include "cli/command_line.h"
#include "cli/list_models.h"
#include "cli/one_shot.h"
#include "cli/perplexity_command.h"
#include "cli/program.h"
#include "cli/session/session.h"

namespace {

int run_command(int argc, char **argv) {
    bmoe::cli::CommandLine command;
    int exit_code = 0;
    if (bmoe::cli::parse_command_line(argc, argv, command, exit_code) == bmoe::cli::Parsed::kExit) {
        return exit_code;
    }
    switch (command.mode) {
        case bmoe::cli::Mode::kChat:
            return bmoe::cli::run_chat(command);
        case bmoe::cli::Mode::kListModels:
            return bmoe::cli::list_models(command.list_models);
        case bmoe::cli::Mode::kSession:
            return bmoe::cli::run_session(command);
        case bmoe::cli::Mode::kPerplexity:
            return bmoe::cli::run_perplexity(command);
        case bmoe::cli::Mode::kOneShot:
            break;
    }
    return bmoe::cli::run_one_shot(command);
}

}  // namespace

int main(int argc, char **argv) {
    bmoe::cli::start_program(argv);
    return bmoe::cli::guarded(run_command, argc, argv);
}
