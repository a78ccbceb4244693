#include "cli/chat/line_editor.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "cli/chat/plain_line_editor.h"
#ifdef BMOE_LIBEDIT
#include "cli/chat/libedit_line_editor.h"
#endif

namespace bmoe::cli {

Input ended_by(int signal, bool has_text) {
    if (signal == SIGINT) {
        return has_text ? Input::kDropped : Input::kInterrupt;
    }
    return signal == SIGHUP ? Input::kHungUp : Input::kTerminated;
}

std::unique_ptr<LineEditor> make_line_editor(const SignalPipe &signals) {
#ifdef BMOE_LIBEDIT
    if (auto editor = LibeditLineEditor::make(signals, isatty(STDOUT_FILENO) != 0 ? stdout : stderr)) {
        return editor;
    }
#else
    std::fputs("note: bmoe-cli was built without libedit: lines cannot be edited, and there is no history\n", stderr);
#endif
    return std::make_unique<PlainLineEditor>(signals);
}

}  // namespace bmoe::cli
