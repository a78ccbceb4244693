// Shows a chat answer while it is generated: the answer on stdout, reasoning apart from it on stderr.
#pragma once

#include "cli/text_output.h"
#include "engine/answer_parser.h"
#include "engine/generation.h"

namespace bmoe::cli {

// Reasoning is dimmed on a terminal, and stands between [thinking] and [answer] elsewhere. Ends a generation when nobody reads
// stdout any more. One for each answer; not thread-safe.
class AnswerPrinter {
  public:
    // `output` must outlive it.
    AnswerPrinter(const engine::RenderedChat &chat, TextOutput &output);

    // What the request needs for this; the printer must live until the generation has ended.
    void attach(engine::GenerationRequest &request);

    // When the generation has ended, however that was.
    void finish();

    engine::ChatMessage message() const { return parser_.message(); }

  private:
    void print(const engine::AnswerParser::Part &part);
    void open_reasoning();
    void close_reasoning();

    engine::AnswerParser parser_;
    TextOutput &output_;
    std::vector<llama_token> markers_;
    bool dims_;
    bool in_reasoning_ = false;
};

}  // namespace bmoe::cli
