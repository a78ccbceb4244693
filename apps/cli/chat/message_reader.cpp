#include "cli/chat/message_reader.h"

namespace bmoe::cli {

Input read_message(LineEditor &editor, std::string &message) {
    message.clear();
    for (bool goes_on = false;;) {
        std::string line;
        if (const Input input = editor.read(goes_on ? ". " : "> ", line); input != Input::kLine) {
            return input == Input::kInterrupt && !message.empty() ? Input::kDropped : input;
        }
        goes_on = line.ends_with('\\');
        if (goes_on) {
            line.back() = '\n';
        }
        message += line;
        if (!goes_on) {
            break;
        }
    }
    if (message.find_first_not_of(" \t\n") != std::string::npos) {
        editor.remember(message);
    }
    return Input::kLine;
}

}  // namespace bmoe::cli
