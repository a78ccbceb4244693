#pragma once

#include "cli/chat/line_editor.h"
#include "cli/chat/terminal_input.h"

namespace bmoe::cli {

// Lines as the terminal driver gives them: of a line that was not ended before a Ctrl-C nothing is known.
class PlainLineEditor : public LineEditor {
  public:
    explicit PlainLineEditor(const SignalPipe &signals) : input_(signals) {}

    Input read(const std::string &prompt, std::string &line) override;
    void remember(const std::string &) override {}

  private:
    TerminalInput input_;
};

}  // namespace bmoe::cli
