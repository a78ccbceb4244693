// Carries out the requests of a session.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/session/inbox.h"
#include "cli/session/output_lines.h"
#include "cli/session/request.h"
#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "engine/text_deltas.h"

namespace bmoe::cli {

// Not thread-safe. `command`, what a request does not say, `engine` and `output` must outlive it.
class Worker {
  public:
    Worker(const CommandLine &command, engine::Engine &engine, OutputLines &output);

    // Calls `finished` when another request may be started, before it says that this one is done.
    void run(const Job &job, const std::function<void()> &finished);

  private:
    void generate(const GenerateRequest &request, const std::function<void()> &finished);
    void decode(const GenerateRequest &request, const std::vector<llama_token> &prompt, engine::TextDeltas &deltas,
                engine::GenerationStats &stats);
    std::vector<llama_token> prompt_of(const GenerateRequest &request) const;
    void say_text(const std::string &id, const std::string &delta, uint32_t tokens);

    const CommandLine &command_;
    engine::Engine &engine_;
    OutputLines &output_;
    engine::Conversation conversation_;
};

}  // namespace bmoe::cli
