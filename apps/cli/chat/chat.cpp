#include "cli/chat/chat.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/answer_printer.h"
#include "cli/chat/line_editor.h"
#include "cli/chat/message_reader.h"
#include "cli/chat/saved_chat.h"
#include "cli/chat/signal_pipe.h"
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

constexpr int kInterrupted = 128 + SIGINT;
constexpr int kTerminated = 128 + SIGTERM;
constexpr int kHungUp = 128 + SIGHUP;

constexpr const char *kHelp =
    "/stats       speed and reads of the last answer, and what the context holds\n"
    "/reset       start a new conversation\n"
    "/save FILE   write the conversation to FILE (JSON)\n"
    "/load FILE   go on with a conversation that was saved\n"
    "/help        these lines\n"
    "/exit        end, as Ctrl-D does\n"
    "A line that ends in a backslash goes on in the next one; what is pasted may have several lines.\n"
    "Ctrl-C stops an answer and keeps the conversation; pressed again at once, it ends the program. Arrow keys and "
    "Ctrl-R\n"
    "find earlier messages.\n";

constexpr const char *kBlank = " \t\n";

void say(const std::string &line) { std::fprintf(stderr, "%s\n", line.c_str()); }

size_t common_prefix(std::span<const llama_token> a, std::span<const llama_token> b) {
    const size_t n = std::min(a.size(), b.size());
    return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first -
                               a.begin());
}

class Chat {
  public:
    Chat(const CommandLine &command, engine::Engine &engine, RunRecorder &recorder, const SignalPipe &signals)
        : command_(command),
          engine_(engine),
          recorder_(recorder),
          chat_template_(open_chat_template(engine, command.no_think)),
          conversation_(engine),
          signals_(signals),
          editor_(make_line_editor(signals)) {}

    int run();

  private:
    std::optional<int> take(const std::string &message);
    std::optional<int> obey(const std::string &message);
    std::optional<int> answer(const std::string &message);
    void go_on_with(const std::string &message);
    engine::ChatMessage generate(const engine::RenderedChat &rendered, std::span<const llama_token> prompt);
    void note_stop() const;
    void reset();
    void save(const std::string &path) const;
    void load(const std::string &path);
    void show_stats() const;
    void show_summary() const;
    std::string model_name() const { return std::filesystem::path(command_.engine.model).filename().string(); }

    const CommandLine &command_;
    engine::Engine &engine_;
    RunRecorder &recorder_;
    std::unique_ptr<engine::ChatTemplate> chat_template_;
    engine::Conversation conversation_;
    const SignalPipe &signals_;
    std::unique_ptr<LineEditor> editor_;
    TextOutput output_;
    std::vector<engine::ChatMessage> messages_;
    std::optional<engine::GenerationStats> last_;
    double before_prompt_ = 0;   // seconds from the message to the decoding of its prompt
    bool interrupted_ = false;   // by Ctrl-C, and nothing was said since: one more ends the conversation
    std::optional<int> ending_;  // exit status, if signals during the last answer end the conversation
};

int Chat::run() {
    say("/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the conversation");
    std::optional<int> status;
    while (!status) {
        std::string message;
        switch (read_message(*editor_, message)) {
            case Input::kLine:
                interrupted_ = false;
                status = take(message);
                break;
            case Input::kDropped:
                interrupted_ = false;
                say("(Ctrl-D or /exit ends the conversation)");
                break;
            case Input::kInterrupt:
                if (interrupted_) {
                    status = kInterrupted;
                    break;
                }
                interrupted_ = true;
                say("(Ctrl-C again, Ctrl-D or /exit ends the conversation)");
                break;
            case Input::kEnd:
                status = 0;
                break;
            case Input::kTerminated:
                status = kTerminated;
                break;
            case Input::kHungUp:
                status = kHungUp;
                break;
        }
    }
    show_summary();
    const bool is_recorded = recorder_.finish();
    const InterruptScope impatience(engine_);  // a second signal ends the program
    engine_.finish_tokenizing();
    return is_recorded ? *status : 1;
}

// Returns the exit status if the program is to end, as do those that follow.
std::optional<int> Chat::take(const std::string &message) {
    if (message.find_first_not_of(kBlank) == std::string::npos) {
        return std::nullopt;
    }
    try {
        if (message.front() == '/') {
            return obey(message);
        }
        return answer(message);
    } catch (const Error &error) {
        say(cat("error: ", error.what()));
        return ending_;
    }
}

std::optional<int> Chat::obey(const std::string &message) {
    const std::string line = message.substr(0, message.find_last_not_of(kBlank) + 1);
    const size_t end = std::min(line.find_first_of(kBlank), line.size());
    const std::string command = line.substr(0, end);
    const std::string argument = line.substr(std::min(line.find_first_not_of(kBlank, end), line.size()));
    if (command == "/save" || command == "/load") {
        if (argument.empty()) {
            throw Error(command + " needs the name of a file");
        }
        command == "/save" ? save(argument) : load(argument);
    } else if (line == "/exit") {
        return 0;
    } else if (line == "/stats") {
        show_stats();
    } else if (line == "/reset") {
        reset();
    } else if (line == "/help") {
        std::fputs(kHelp, stderr);
    } else {
        throw Error(cat("there is no command '", line, "'; /help lists them"));
    }
    return std::nullopt;
}

std::optional<int> Chat::answer(const std::string &message) {
    engine_.take_cancel();  // one that came when the last answer had ended
    std::optional<InterruptScope> interrupt(std::in_place, engine_, -1, InterruptScope::Second::kIsTaken);
    const int early = signals_.take();  // after the message, before now
    if (early != 0) {
        engine_.cancel();
    }
    bool is_stopped = false;
    const auto note_signals = [&] {
        const int status = early != 0 && !interrupt->interrupted() ? 128 + early : interrupt->exit_status();
        const bool again = interrupt->again() || (early != 0 && interrupt->interrupted());
        interrupt.reset();
        if (again || status == kTerminated || status == kHungUp) {
            ending_ = status;
        }
        interrupted_ = status == kInterrupted && is_stopped;
    };
    try {
        go_on_with(message);
        is_stopped = last_->stop == engine::StopReason::kCancelled;
    } catch (const Error &) {
        note_signals();
        throw;
    }
    note_signals();
    if (output_.failed()) {
        say("error: " + output_.error());
        return output_.exit_status();
    }
    note_stop();
    return ending_;
}

// Adds the message and its answer to the conversation. If nothing comes of it that is left as it was before.
void Chat::go_on_with(const std::string &message) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<engine::ChatMessage> messages = messages_;
    messages.push_back({"user", message});
    const engine::RenderedChat rendered = chat_template_->render(messages);
    std::optional<std::vector<llama_token>> prompt;
    try {
        prompt = engine_.tokenize(rendered.prompt, true);
    } catch (const engine::Cancelled &) {
        last_.emplace().stop = engine::StopReason::kCancelled;
    }
    if (const uint32_t n_ctx = llama_n_ctx(engine_.context()); prompt && prompt->size() > n_ctx) {
        throw Error(cat("with this message the conversation has ", prompt->size(), " tokens, more than the context of ",
                        n_ctx, " holds; it is left as it was. /reset starts a new one, -c gives a larger context"));
    }
    before_prompt_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const engine::ChatMessage said = prompt ? generate(rendered, *prompt) : engine::ChatMessage();
    if (said.content.empty() && said.reasoning.empty()) {
        say("(no answer: the message is not part of the conversation)");
        return;
    }
    messages.push_back(said);
    messages_ = std::move(messages);
}

engine::ChatMessage Chat::generate(const engine::RenderedChat &rendered, std::span<const llama_token> prompt) {
    PromptProgress progress(prompt.size() - common_prefix(prompt, conversation_.tokens()), engine_.report().n_ubatch,
                            !command_.record.progress);
    AnswerPrinter printer(rendered, output_);
    engine::GenerationRequest request;
    request.prompt = prompt;
    request.max_tokens = static_cast<uint32_t>(command_.max_tokens);
    request.sampling = command_.sampling;
    // How much of the context could be kept shows only in the first call.
    std::optional<size_t> reused;
    request.on_prompt = [&](size_t done) {
        reused = reused.value_or(done);
        progress.show(done - *reused, prompt.size() - *reused);
    };
    printer.attach(request);
    recorder_.record(request, last_.emplace());
    const auto end = [&] {
        progress.clear();
        printer.finish();
        recorder_.finish_request();
    };
    try {
        conversation_.generate(request, *last_);
    } catch (const Error &) {
        end();
        throw;
    }
    end();
    return printer.message();
}

void Chat::note_stop() const {
    switch (last_->stop) {
        case engine::StopReason::kContextFull:
            say(cat("note: the answer ends with the context of ", llama_n_ctx(engine_.context()),
                    " tokens; /reset starts a new conversation, -c gives a larger context"));
            break;
        case engine::StopReason::kMaxTokens:
            say(cat("note: the answer ends after ", last_->generated, " tokens; -n allows more"));
            break;
        case engine::StopReason::kCancelled:
            say(ending_ ? "(stopped)" : "(stopped; Ctrl-C again ends the conversation)");
            break;
        case engine::StopReason::kEndOfText:
        case engine::StopReason::kCaller:
            break;
    }
}

void Chat::reset() {
    messages_.clear();
    conversation_.reset();
    say("a new conversation");
}

void Chat::save(const std::string &path) const {
    write_chat(path, {model_name(), messages_});
    say(cat(messages_.size(), " messages saved in ", path));
}

void Chat::load(const std::string &path) {
    SavedChat chat = read_chat(path);
    if (chat.model != model_name()) {
        say(cat("note: this conversation was held with ", chat.model));
    }
    messages_ = std::move(chat.messages);
    say(cat(messages_.size(), " messages loaded from ", path));
}

void Chat::show_stats() const {
    show_summary();
    say(cat("conversation: ", messages_.size(), " messages; the context holds ", conversation_.tokens().size(), " of ",
            llama_n_ctx(engine_.context()), " tokens"));
    if (last_) {
        say(cat("last prompt: ", last_->reused_tokens, " tokens were still in the context, ", last_->prompt_tokens,
                " were read"));
    }
}

void Chat::show_summary() const {
    if (last_) {
        print_summary(engine_, *last_, before_prompt_);
    }
}

}  // namespace

int run_chat(const CommandLine &given) {
    CommandLine command = given;
    RunRecorder recorder(command.record);
    recorder.observe(command.engine);
    std::optional<SignalPipe> signals;  // until the engine, which may write a file, is gone
    const auto engine = open_engine(command);
    recorder.begin(*engine, command);
    signals.emplace();
    return Chat(command, *engine, recorder, *signals).run();
}

}  // namespace bmoe::cli
