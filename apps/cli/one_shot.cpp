#include "cli/one_shot.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/answer_printer.h"
#include "cli/interrupt.h"
#include "cli/open_chat_template.h"
#include "cli/open_engine.h"
#include "cli/prompt_progress.h"
#include "cli/run_recorder.h"
#include "cli/run_summary.h"
#include "cli/text_output.h"
#include "engine/conversation.h"

namespace bmoe::cli {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The prompt as a message in the model's chat template; empty if it is to be continued as it is.
std::optional<engine::RenderedChat> render(const engine::Engine &engine, const CommandLine &command) {
    if (!command.chat) {
        return std::nullopt;
    }
    const engine::ChatMessage message{"user", command.prompt};
    return open_chat_template(engine, command.no_think)->render({&message, 1});
}

// The prompt and what follows it, as one text. It begins when the prompt has been read: a line that shows how far that is
// would write over it.
class Continuation {
  public:
    Continuation(const std::string &prompt, TextOutput &output) : prompt_(prompt), output_(output) {}

    void attach(engine::GenerationRequest &request) {
        request.on_text = [this](std::string_view piece) {
            begin();
            output_.write(piece);
            return !output_.failed();
        };
    }
    void finish() {
        begin();
        output_.write("\n");
    }

  private:
    void begin() {
        if (!begun_) {
            begun_ = true;
            output_.write(prompt_);
        }
    }

    const std::string &prompt_;
    TextOutput &output_;
    bool begun_ = false;
};

}  // namespace

int run_one_shot(const CommandLine &given) {
    CommandLine command = given;
    RunRecorder recorder(command.record);
    recorder.observe(command.engine);
    const auto start = std::chrono::steady_clock::now();
    const auto engine = open_engine(command);
    InterruptScope interrupt(*engine);
    recorder.begin(*engine, command);
    const auto chat = render(*engine, command);
    engine::GenerationStats stats;
    std::vector<llama_token> prompt;
    try {
        prompt = engine->tokenize(chat ? chat->prompt : command.prompt, true);
    } catch (const engine::Cancelled &) {
        print_summary(*engine, stats, seconds_since(start));
        return recorder.finish() ? interrupt.exit_status() : 1;
    }
    const double before_prompt = seconds_since(start);

    TextOutput output;
    PromptProgress progress(prompt.size(), engine->report().n_ubatch, !command.record.progress);
    engine::GenerationRequest request;
    request.prompt = prompt;
    request.max_tokens = static_cast<uint32_t>(command.max_tokens);
    request.sampling = command.sampling;
    bool has_begun = false;  // the prompt fits
    request.on_prompt = [&](size_t done) {
        has_begun = true;
        progress.show(done, prompt.size());
    };
    Continuation continuation(command.prompt, output);
    std::optional<AnswerPrinter> answer;
    if (chat) {
        answer.emplace(*chat, output).attach(request);
    } else {
        continuation.attach(request);
    }
    const auto end_text = [&] {
        progress.clear();
        answer ? answer->finish() : continuation.finish();
    };
    recorder.record(request, stats);
    engine::Conversation conversation(*engine);
    try {
        conversation.generate(request, stats);
    } catch (const Error &) {
        if (has_begun) {
            end_text();
            recorder.finish_request();
            print_summary(*engine, stats, before_prompt);
        }
        throw;
    }
    interrupt.ignore_from_now_on();
    end_text();
    recorder.finish_request();
    if (stats.stop == engine::StopReason::kContextFull) {
        std::fprintf(stderr, "note: stopped at the end of the context of %u tokens; -c makes it larger\n",
                     llama_n_ctx(engine->context()));
    }
    print_summary(*engine, stats, before_prompt);
    const bool recorded = recorder.finish();
    if (output.failed()) {
        return output.report_failure();
    }
    return recorded ? interrupt.exit_status() : 1;
}

}  // namespace bmoe::cli
