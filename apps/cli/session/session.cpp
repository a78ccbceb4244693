#include "cli/session/session.h"

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/open_chat_template.h"
#include "cli/run_recorder.h"
#include "cli/session/answer_figures.h"
#include "cli/session/inbox.h"
#include "cli/session/line_reader.h"
#include "cli/session/output_lines.h"
#include "cli/session/request_reader.h"
#include "cli/session/worker.h"
#include "engine/prompt_maker.h"

namespace bmoe::cli {

namespace {

// In this order: an engine may have a note when it is closed.
struct Opened {
    std::vector<std::string> notes;  // for the user
    std::unique_ptr<RunRecorder> recorder;
    std::unique_ptr<engine::Engine> engine;
    std::unique_ptr<engine::PromptMaker> prompts;
};

void ask_for_no_reasoning(Opened &opened, const std::function<void(const std::string &)> &on_note) {
    try {
        if (!opened.prompts->turn_off_reasoning()) {
            on_note(kNoReasoningSwitch);
        }
    } catch (const Error &) {
        // Text can be continued all the same, and a request with messages learns why it cannot be carried out.
        on_note("--no-think has no effect: the model has no chat template that can be used");
    }
}

void open(const CommandLine &command, OutputLines &output, Opened &opened) {
    engine::Options options = command.engine;
    options.on_progress = [&output, shown = -1](float done) mutable {
        const int percent = static_cast<int>(done * 100);
        if (percent > shown) {
            shown = percent;
            output.write("BMOE_LOAD", {{"progress", percent / 100.0}});
        }
    };
    // Those that come later have only stderr.
    options.on_note = [&opened](const std::string &line) {
        opened.notes.push_back(line);
        std::fprintf(stderr, "note: %s\n", line.c_str());
    };
    try {
        opened.recorder = std::make_unique<RunRecorder>(command.record);
        opened.recorder->observe(options);
        opened.engine = std::make_unique<engine::Engine>(options);
        opened.recorder->begin(*opened.engine, command);
        opened.prompts = std::make_unique<engine::PromptMaker>(*opened.engine);
        if (!opened.engine->report().streaming && !command.streaming_flags.empty()) {
            options.on_note("nothing is streamed, and these have no effect: " + command.streaming_flags);
        }
        if (command.no_think) {
            ask_for_no_reasoning(opened, options.on_note);
        }
    } catch (const std::exception &failure) {
        output.fatal("open", failure.what());
        throw;
    }
}

}  // namespace

int run_session(const CommandLine &command) {
    OutputLines output;
    Opened opened;
    open(command, output, opened);
    engine::Engine &engine = *opened.engine;
    WakeEvent wake;
    InterruptScope interrupt(engine, wake.descriptor());
    Inbox inbox([&] { engine.cancel(); }, [&] { engine.take_cancel(); });
    Worker worker(command, engine, *opened.recorder, *opened.prompts, output);
    output.write("BMOE_READY", ready_body(command, engine, opened.notes));
    RequestReader reader(inbox, output, wake);
    while (!output.failed()) {
        const std::optional<Job> job = inbox.next();
        if (!job) {
            break;
        }
        worker.run(*job, [&] { inbox.finished(); });
    }
    reader.stop();
    engine.finish_tokenizing();
    interrupt.ignore_from_now_on();
    const bool recorded = opened.recorder->finish();
    const Ending ending = inbox.ending().value_or(Ending::kInterrupted);
    if (ending == Ending::kClosed) {
        output.write("BMOE_DONE", {{"op", "close"}, {"id", json_id(reader.close_id())}});
    }
    if (output.failed()) {
        return output.report_failure();
    }
    return ending == Ending::kInputFailed || !recorded ? 1 : interrupt.exit_status();
}

}  // namespace bmoe::cli
