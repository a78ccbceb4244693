// Messages of one or more typed lines.
#pragma once

#include <string>

#include "cli/chat/line_editor.h"

namespace bmoe::cli {

// Reads lines until one does not end in a backslash, and remembers them as one entry of the history. `message` is complete after
// kLine only.
Input read_message(LineEditor &editor, std::string &message);

}  // namespace bmoe::cli
