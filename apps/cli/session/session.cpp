#include "cli/session/session.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/interrupt.h"
#include "cli/session/answer_figures.h"
#include "cli/session/inbox.h"
#include "cli/session/line_reader.h"
#include "cli/session/output_lines.h"
#include "cli/session/request_reader.h"
#include "cli/session/worker.h"

namespace bmoe::cli {

namespace {

std::unique_ptr<engine::Engine> open(const CommandLine &command, OutputLines &output, std::vector<std::string> &notes) {
    engine::Options options = command.engine;
    options.on_progress = [&output, shown = -1](float done) mutable {
        const int percent = static_cast<int>(done * 100);
        if (percent > shown) {
            shown = percent;
            output.write("BMOE_LOAD", {{"progress", percent / 100.0}});
        }
    };
    // Those that come later have only stderr.
    options.on_note = [&notes](const std::string &line) {
        notes.push_back(line);
        std::fprintf(stderr, "note: %s\n", line.c_str());
    };
    try {
        auto engine = std::make_unique<engine::Engine>(options);
        if (!engine->report().streaming && !command.streaming_flags.empty()) {
            options.on_note("nothing is streamed, and these have no effect: " + command.streaming_flags);
        }
        return engine;
    } catch (const std::exception &failure) {
        output.fatal("open", failure.what());
        throw;
    }
}

}  // namespace

int run_session(const CommandLine &command) {
    OutputLines output;
    std::vector<std::string> notes;
    const auto engine = open(command, output, notes);
    WakeEvent wake;
    InterruptScope interrupt(*engine, wake.descriptor());
    Inbox inbox([&] { engine->cancel(); }, [&] { engine->take_cancel(); });
    Worker worker(command, *engine, output);
    output.write("BMOE_READY", ready_body(command, *engine, notes));
    RequestReader reader(inbox, output, wake);
    while (!output.failed()) {
        const std::optional<Job> job = inbox.next();
        if (!job) {
            break;
        }
        worker.run(*job, [&] { inbox.finished(); });
    }
    reader.stop();
    interrupt.ignore_from_now_on();
    const Ending ending = inbox.ending().value_or(Ending::kInterrupted);
    if (ending == Ending::kClosed) {
        output.write("BMOE_DONE", {{"op", "close"}, {"id", json_id(reader.close_id())}});
    }
    if (output.failed()) {
        return output.exit_status();
    }
    return ending == Ending::kInputFailed ? 1 : interrupt.exit_status();
}

}  // namespace bmoe::cli
