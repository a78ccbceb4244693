#include "cli/open_engine.h"

#include <cstdio>

#include "cli/progress_line.h"

namespace bmoe::cli {

std::unique_ptr<engine::Engine> open_engine(const CommandLine &command) {
    const auto progress = std::make_shared<ProgressLine>("loading " + command.engine.model);
    engine::Options options = command.engine;
    options.on_progress = [progress](float done) { progress->show(done); };
    options.on_note = [progress](const std::string &line) {
        progress->clear();
        std::fprintf(stderr, "note: %s\n", line.c_str());
    };
    auto engine = std::make_unique<engine::Engine>(options);
    progress->clear();
    const engine::OpenReport &report = engine->report();
    std::fprintf(stderr, "%s; loaded in %.2f s\n", report.mode_note.c_str(), report.load_seconds);
    if (!report.streaming && !command.streaming_flags.empty()) {
        std::fprintf(stderr, "note: nothing is streamed, and these have no effect: %s\n",
                     command.streaming_flags.c_str());
    }
    if (report.plan.total() > 0) {
        std::fprintf(stderr, "memory: %s; ubatch %u\n", report.plan.describe().c_str(), report.n_ubatch);
    }
    return engine;
}

}  // namespace bmoe::cli
