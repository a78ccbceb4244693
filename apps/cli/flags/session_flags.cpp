#include "cli/flags/session_flags.h"

namespace bmoe::cli {

void SessionFlags::add_to(CLI::App &app, CommandLine &out) {
    app_ = &app;
    app.add_flag_callback(
           "--session", [&out] { out.mode = Mode::kSession; },
           "Take requests as JSON lines from stdin and answer on stdout (docs/session.md); the flags of this group are "
           "what a request does not say")
        ->group("Generation");
}

void SessionFlags::apply(CommandLine &out) {
    if (out.mode != Mode::kSession) {
        return;
    }
    for (const char *flag : {"--prompt", "--chat"}) {
        if (app_->count(flag) > 0) {
            throw CLI::ValidationError(std::string(flag) +
                                       " has no meaning with --session: requests say what to generate");
        }
    }
}

}  // namespace bmoe::cli
