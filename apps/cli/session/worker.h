// Carries out the requests of a session.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/run_recorder.h"
#include "cli/session/inbox.h"
#include "cli/session/output_lines.h"
#include "cli/session/request.h"
#include "engine/answer_stream.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/prompt_maker.h"

namespace bmoe::cli {

// Not thread-safe. All that it is made with must outlive it; `command` is what a request does not say.
class Worker {
  public:
    Worker(const CommandLine &command, engine::Engine &engine, RunRecorder &recorder, engine::PromptMaker &prompts,
           OutputLines &output);

    // Calls `finished` when another request may be started, before it says that this one is done.
    void run(const Job &job, const std::function<void()> &finished);

  private:
    void generate(const GenerateRequest &request, const std::function<void()> &finished);
    void decode(const GenerateRequest &request, const engine::Prompt &prompt, engine::AnswerStream &answer,
                engine::GenerationStats &stats);
    engine::Prompt prompt_of(const GenerateRequest &request);
    void progress(Json body);
    void say(const std::string &id, const engine::AnswerStream::Delta &delta, uint32_t tokens);

    const CommandLine &command_;
    engine::Engine &engine_;
    RunRecorder &recorder_;
    engine::PromptMaker &prompts_;
    OutputLines &output_;
    engine::Conversation conversation_;
};

}  // namespace bmoe::cli
