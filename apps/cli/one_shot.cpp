#include "cli/one_shot.h"

#include <chrono>
#include <cstdio>
#include <string_view>

#include "cli/interrupt.h"
#include "cli/open_engine.h"
#include "cli/run_recorder.h"
#include "cli/run_summary.h"
#include "cli/text_output.h"
#include "engine/chat_prompt.h"
#include "engine/generation.h"

namespace bmoe::cli {

namespace {

// True if all that was wanted is in the files.
bool finish(RunRecorder &recorder) {
    recorder.finish();
    const std::vector<std::string> errors = recorder.errors();
    for (const std::string &error : errors) {
        std::fprintf(stderr, "error: %s\n", error.c_str());
    }
    return errors.empty();
}

}  // namespace

int run_one_shot(const CommandLine &given) {
    CommandLine command = given;
    RunRecorder recorder(command.record);
    recorder.observe(command.engine);
    const auto start = std::chrono::steady_clock::now();
    const auto engine = open_engine(command);
    recorder.begin(*engine, command);
    const std::string text =
        command.chat ? engine::render_user_message(engine->model(), command.prompt) : command.prompt;
    const auto prompt = engine->tokenize(text, !command.chat);
    const double before_prompt = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

    InterruptScope interrupt(*engine);
    TextOutput output;
    if (!command.chat) {
        output.write(command.prompt);
    }
    engine::GenerationStats stats;
    engine::GenerationRequest request;
    request.prompt = prompt;
    request.max_tokens = static_cast<uint32_t>(command.max_tokens);
    request.sampling = command.sampling;
    request.on_text = [&](std::string_view piece) {
        output.write(piece);
        return !output.failed();
    };
    recorder.record(request, stats);
    try {
        engine::generate(*engine, request, stats);
    } catch (const Error &) {
        output.write("\n");
        recorder.finish_request();
        print_summary(*engine, stats, before_prompt);
        finish(recorder);
        throw;
    }
    interrupt.ignore_from_now_on();
    output.write("\n");
    recorder.finish_request();
    if (stats.stop == engine::StopReason::kContextFull) {
        std::fprintf(stderr, "note: stopped at the end of the context of %u tokens; -c makes it larger\n",
                     llama_n_ctx(engine->context()));
    }
    print_summary(*engine, stats, before_prompt);
    const bool recorded = finish(recorder);
    if (output.failed()) {
        std::fprintf(stderr, "error: %s\n", output.error().c_str());
        return output.exit_status();
    }
    return recorded ? interrupt.exit_status() : 1;
}

}  // namespace bmoe::cli
