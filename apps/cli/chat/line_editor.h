// Lines typed by a person.
#pragma once

#include <memory>
#include <string>

#include "cli/chat/signal_pipe.h"

namespace bmoe::cli {

enum class Input {
    kLine,
    kEnd,         // of the input, as by Ctrl-D
    kInterrupt,   // Ctrl-C, with nothing typed
    kDropped,     // Ctrl-C: what was typed is dropped
    kTerminated,  // SIGTERM
    kHungUp,      // SIGHUP: the terminal is gone
};

// Why there is no line when `signal` came; `has_text`: something was typed.
Input ended_by(int signal, bool has_text);

class LineEditor {
  public:
    LineEditor() = default;
    virtual ~LineEditor() = default;
    LineEditor(const LineEditor &) = delete;
    LineEditor &operator=(const LineEditor &) = delete;

    // Shows `prompt` and reads a line, without its end; what was pasted may hold several. UTF-8. Blocks.
    virtual Input read(const std::string &prompt, std::string &line) = 0;

    // Makes `message` the newest entry of the history.
    virtual void remember(const std::string &message) = 0;
};

// On a terminal with editing and a history, which is kept from one run to the next in $XDG_STATE_HOME/bmoe/history or
// ~/.local/state/bmoe/history if that can be written; else plain lines. `signals` must outlive it.
std::unique_ptr<LineEditor> make_line_editor(const SignalPipe &signals);

}  // namespace bmoe::cli
