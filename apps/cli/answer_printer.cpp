#include "cli/answer_printer.h"

#include <unistd.h>

#include <cstdio>

namespace bmoe::cli {

AnswerPrinter::AnswerPrinter(const engine::RenderedChat &chat, TextOutput &output)
    : parser_(chat.format), output_(output), markers_(chat.markers), dims_(isatty(STDERR_FILENO) != 0) {}

void AnswerPrinter::attach(engine::GenerationRequest &request) {
    request.markers = markers_;
    request.on_text = [this](std::string_view piece) {
        print(parser_.add(piece));
        return !output_.failed() && !parser_.ended();
    };
}

void AnswerPrinter::finish() {
    print(parser_.finish());
    close_reasoning();
    output_.write("\n");
    if (parser_.broke_format()) {
        std::fprintf(stderr, "note: %s\n", engine::kBrokenFormat);
    }
}

void AnswerPrinter::print(const engine::AnswerParser::Part &part) {
    if (!part.reasoning.empty()) {
        open_reasoning();
        std::fwrite(part.reasoning.data(), 1, part.reasoning.size(), stderr);
        std::fflush(stderr);
    }
    if (!part.content.empty()) {
        close_reasoning();
        output_.write(part.content);
    }
}

void AnswerPrinter::open_reasoning() {
    if (!in_reasoning_) {
        in_reasoning_ = true;
        std::fputs(dims_ ? "\033[2m" : "[thinking]\n", stderr);
    }
}

void AnswerPrinter::close_reasoning() {
    if (in_reasoning_) {
        in_reasoning_ = false;
        std::fputs(dims_ ? "\033[0m\n\n" : "\n[answer]\n", stderr);
        std::fflush(stderr);
    }
}

}  // namespace bmoe::cli
