#include "cli/chat/plain_line_editor.h"

#include <csignal>
#include <cstdio>

namespace bmoe::cli {

Input PlainLineEditor::read(const std::string &prompt, std::string &line) {
    std::fputs(prompt.c_str(), stderr);
    std::fflush(stderr);
    line.clear();
    for (;;) {
        char byte = 0;
        switch (input_.next(byte)) {
            case TerminalInput::Event::kEnd:
                std::fputc('\n', stderr);
                return line.empty() ? Input::kEnd : Input::kLine;
            case TerminalInput::Event::kSignal:
                std::fputc('\n', stderr);
                return ended_by(input_.signal(), !line.empty());
            case TerminalInput::Event::kByte:
                if (byte == '\n') {
                    return Input::kLine;
                }
                line += byte;
        }
    }
}

}  // namespace bmoe::cli
