#include "cli/session/worker.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "cli/session/answer_figures.h"

namespace bmoe::cli {

namespace {

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

}  // namespace

Worker::Worker(const CommandLine &command, engine::Engine &engine, RunRecorder &recorder, engine::PromptMaker &prompts,
               OutputLines &output)
    : command_(command),
      engine_(engine),
      recorder_(recorder),
      prompts_(prompts),
      output_(output),
      conversation_(engine) {}

void Worker::run(const Job &job, const std::function<void()> &finished) {
    if (const auto *request = std::get_if<GenerateRequest>(&job)) {
        generate(*request, finished);
        return;
    }
    conversation_.reset();
    finished();
    output_.write("BMOE_DONE", {{"op", "reset"}, {"id", json_id(std::get<ResetRequest>(job).id)}});
}

void Worker::generate(const GenerateRequest &request, const std::function<void()> &finished) {
    engine::GenerationStats stats;
    std::optional<engine::AnswerStream> answer;
    std::optional<size_t> prompt_tokens;
    std::string error;
    try {
        const engine::Prompt prompt = prompt_of(request);
        prompt_tokens = prompt.tokens.size();
        answer.emplace(prompt.chat, request.stop);
        decode(request, prompt, *answer, stats);
    } catch (const engine::Cancelled &) {  // before the prompt was cut into tokens
        stats.stop = engine::StopReason::kCancelled;
    } catch (const std::exception &failure) {
        error = failure.what();
    }
    recorder_.finish_request();
    if (answer) {
        say(request.id, answer->finish(), stats.generated);
        if (answer->broke_format()) {
            std::fprintf(stderr, "note: %s\n", engine::kBrokenFormat);
        }
    }
    const Json figures = answer_figures(engine_, stats, prompt_tokens);
    finished();
    if (!error.empty()) {
        output_.error(request.id, "failed", error);
        return;
    }
    Json done = {{"op", "generate"},
                 {"id", request.id},
                 {"reason", reason_name(stats.stop)},
                 {"stop", !answer || answer->stop().empty() ? Json() : Json(answer->stop())}};
    done.update(figures);
    output_.write("BMOE_DONE", done);
}

void Worker::decode(const GenerateRequest &request, const engine::Prompt &prompt, engine::AnswerStream &answer,
                    engine::GenerationStats &stats) {
    const auto start = std::chrono::steady_clock::now();
    std::optional<size_t> reused;
    engine::GenerationRequest wanted;
    wanted.prompt = prompt.tokens;
    if (prompt.chat) {
        wanted.markers = prompt.chat->markers;
    }
    wanted.max_tokens = request.max_tokens.value_or(static_cast<uint32_t>(command_.max_tokens));
    wanted.sampling = sampling_of(request, command_.sampling);
    wanted.on_prompt = [&](size_t done) {
        reused = reused.value_or(done);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        Json body = {{"id", request.id}, {"phase", "prompt"}};
        body.update(prompt_progress(done, prompt.tokens.size(), *reused, taken.count()));
        progress(std::move(body));
        if (output_.failed()) {
            engine_.cancel();
        }
    };
    wanted.on_text = [&](std::string_view piece) {
        say(request.id, answer.add(piece), stats.generated);
        return !answer.ended() && !output_.failed();
    };
    recorder_.record(wanted, stats);
    conversation_.generate(wanted, stats);
}

engine::Prompt Worker::prompt_of(const GenerateRequest &request) {
    if (request.messages.empty()) {
        return prompts_.of_text(request.prompt);
    }
    std::vector<engine::ChatMessage> messages;
    for (const auto &[role, content] : request.messages) {
        messages.push_back({role, content});
    }
    return prompts_.of_messages(messages);
}

void Worker::progress(Json body) {
    if (!engine_.report().lossy.empty()) {
        body["lossy"] = true;
    }
    output_.write("BMOE_PROGRESS", body);
}

void Worker::say(const std::string &id, const engine::AnswerStream::Delta &delta, uint32_t tokens) {
    const auto write = [&](const char *phase, const std::string &text) {
        if (!text.empty()) {
            progress({{"id", id}, {"phase", phase}, {"delta", text}, {"tokens", tokens}});
        }
    };
    write("reasoning", delta.reasoning);
    write("text", delta.text);
}

}  // namespace bmoe::cli
