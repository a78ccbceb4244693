#include "cli/session/session.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/session/answer_figures.h"
#include "cli/session/inbox.h"
#include "cli/session/line_reader.h"
#include "cli/session/output_lines.h"
#include "cli/session/request.h"
#include "cli/session/text_deltas.h"
#include "engine/chat_prompt.h"
#include "engine/conversation.h"

namespace bmoe::cli {

namespace {

constexpr size_t kMostLineBytes = size_t{64} << 20;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

engine::Sampling sampling_of(const GenerateRequest &request, engine::Sampling otherwise) {
    otherwise.temperature = request.temperature.value_or(otherwise.temperature);
    otherwise.top_k = request.top_k.value_or(otherwise.top_k);
    otherwise.top_p = request.top_p.value_or(otherwise.top_p);
    otherwise.min_p = request.min_p.value_or(otherwise.min_p);
    otherwise.seed = request.seed.value_or(otherwise.seed);
    return otherwise;
}

const char *reason_name(engine::StopReason reason) {
    switch (reason) {
        case engine::StopReason::kMaxTokens:
            return "length";
        case engine::StopReason::kContextFull:
            return "context";
        case engine::StopReason::kCancelled:
            return "cancelled";
        case engine::StopReason::kEndOfText:
        case engine::StopReason::kCaller:  // a stop text
            break;
    }
    return "stop";
}

// Works on one request after the other.
class Worker {
  public:
    Worker(const CommandLine &command, engine::Engine &engine, OutputLines &output)
        : command_(command), engine_(engine), output_(output), conversation_(engine) {}

    // Calls `finished` when another request may be started, before it says that this one is done.
    void run(const Job &job, const std::function<void()> &finished) {
        if (const auto *request = std::get_if<GenerateRequest>(&job)) {
            generate(*request, finished);
            return;
        }
        conversation_.reset();
        finished();
        const std::optional<std::string> &id = std::get<ResetRequest>(job).id;
        output_.write("BMOE_DONE", {{"op", "reset"}, {"id", id ? Json(*id) : Json()}});
    }

  private:
    std::vector<llama_token> prompt_of(const GenerateRequest &request) const {
        if (request.messages.empty()) {
            return engine_.tokenize(request.prompt, true);
        }
        std::vector<engine::ChatMessage> messages;
        for (const auto &[role, content] : request.messages) {
            messages.push_back({role, content});
        }
        return engine_.tokenize(engine::render_chat(engine_.model(), messages), false);
    }

    void generate(const GenerateRequest &request, const std::function<void()> &finished) {
        TextDeltas deltas(request.stop);
        engine::GenerationStats stats;
        size_t prompt_tokens = 0;
        std::string error;
        try {
            const std::vector<llama_token> prompt = prompt_of(request);
            prompt_tokens = prompt.size();
            decode(request, prompt, deltas, stats);
        } catch (const std::exception &failure) {
            error = failure.what();
        }
        say_text(request.id, deltas.finish(), stats.generated);
        const Json figures = answer_figures(engine_, stats, prompt_tokens);
        finished();
        if (!error.empty()) {
            output_.error(request.id, "failed", error);
            return;
        }
        Json done = {{"op", "generate"},
                     {"id", request.id},
                     {"reason", reason_name(stats.stop)},
                     {"stop", deltas.stopped() ? Json(deltas.stop()) : Json()}};
        done.update(figures);
        output_.write("BMOE_DONE", done);
    }

    void decode(const GenerateRequest &request, const std::vector<llama_token> &prompt, TextDeltas &deltas,
                engine::GenerationStats &stats) {
        const auto start = Clock::now();
        std::optional<size_t> reused;
        engine::GenerationRequest wanted;
        wanted.prompt = prompt;
        wanted.max_tokens = request.max_tokens.value_or(static_cast<uint32_t>(command_.max_tokens));
        wanted.sampling = sampling_of(request, command_.sampling);
        wanted.on_prompt = [&](size_t done) {
            reused = reused.value_or(done);
            Json progress = {{"id", request.id}, {"phase", "prompt"}};
            progress.update(prompt_progress(done, prompt.size(), *reused, seconds_since(start)));
            output_.write("BMOE_PROGRESS", progress);
            if (output_.failed()) {
                engine_.cancel();
            }
        };
        wanted.on_text = [&](std::string_view piece) {
            say_text(request.id, deltas.add(piece), stats.generated);
            return !deltas.stopped() && !output_.failed();
        };
        conversation_.generate(wanted, stats);
    }

    void say_text(const std::string &id, const std::string &delta, uint32_t tokens) {
        if (!delta.empty()) {
            output_.write("BMOE_PROGRESS", {{"id", id}, {"phase", "text"}, {"delta", delta}, {"tokens", tokens}});
        }
    }

    const CommandLine &command_;
    engine::Engine &engine_;
    OutputLines &output_;
    engine::Conversation conversation_;
};

// Reads requests in a thread of its own, so that a cancel arrives at any time.
class Reader {
  public:
    Reader(Inbox &inbox, OutputLines &output, const WakeEvent &wake)
        : inbox_(inbox), output_(output), lines_(STDIN_FILENO, wake, kMostLineBytes) {}

    void run() {
        try {
            while (take_line() && !output_.failed()) {
            }
        } catch (const std::exception &failure) {
            output_.fatal("input", failure.what());
            inbox_.end(Ending::kInputFailed);
        }
        inbox_.end(Ending::kInterrupted);
    }

    const std::optional<std::string> &close_id() const { return close_id_; }

  private:
    // False when nothing more is to be read.
    bool take_line() {
        std::string line;
        switch (lines_.next(line)) {
            case LineReader::Got::kWoken:
                return false;
            case LineReader::Got::kEnd:
                inbox_.end(Ending::kEndOfInput);
                return false;
            case LineReader::Got::kTooLong:
                output_.error({}, "bad_request", cat("a line has more than ", kMostLineBytes, " bytes"));
                return true;
            case LineReader::Got::kLine:
                break;
        }
        const bool blank = line.find_first_not_of(" \t") == std::string::npos;
        return blank || std::visit([&](auto &request) { return take(request); }, parse(line));
    }

    Request &parse(const std::string &line) { return request_ = parse_request(line); }

    template <typename T>
    bool take(T &request) {
        const std::optional<std::string> id = request.id;
        if (!inbox_.start(std::move(request))) {
            output_.error(id, "busy",
                          "another request is under way; wait for its BMOE_DONE or BMOE_ERROR, or cancel it");
        }
        return true;
    }

    bool take(CancelRequest &request) {
        if (!inbox_.cancel(request.id)) {
            output_.error(request.id, "not_running", "cancel: no such request is under way");
        }
        return true;
    }

    bool take(CloseRequest &request) {
        close_id_ = request.id;
        inbox_.end(Ending::kClosed);
        return false;
    }

    bool take(BadRequest &request) {
        output_.error(request.id, "bad_request", request.message);
        return true;
    }

    Inbox &inbox_;
    OutputLines &output_;
    LineReader lines_;
    Request request_;
    std::optional<std::string> close_id_;
};

// The thread of the reader, ended and awaited when this goes away.
class ReaderThread {
  public:
    ReaderThread(Reader &reader, WakeEvent &wake) : wake_(wake), thread_([&reader] { reader.run(); }) {}
    ~ReaderThread() {
        wake_.wake();
        thread_.join();
    }
    ReaderThread(const ReaderThread &) = delete;
    ReaderThread &operator=(const ReaderThread &) = delete;

  private:
    WakeEvent &wake_;
    std::thread thread_;
};

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
        return std::make_unique<engine::Engine>(options);
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
    Reader reader(inbox, output, wake);
    {
        const ReaderThread thread(reader, wake);
        while (!output.failed()) {
            const std::optional<Job> job = inbox.next();
            if (!job) {
                break;
            }
            worker.run(*job, [&] { inbox.finished(); });
        }
    }
    interrupt.ignore_from_now_on();
    const Ending ending = inbox.ending().value_or(Ending::kInterrupted);
    if (ending == Ending::kClosed) {
        const std::optional<std::string> &id = reader.close_id();
        output.write("BMOE_DONE", {{"op", "close"}, {"id", id ? Json(*id) : Json()}});
    }
    if (output.failed()) {
        return output.exit_status();
    }
    return ending == Ending::kInputFailed ? 1 : interrupt.exit_status();
}

}  // namespace bmoe::cli
