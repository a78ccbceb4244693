// A conversation in a file.
#pragma once

#include <string>
#include <vector>

#include "engine/chat_message.h"

namespace bmoe::cli {

struct SavedChat {
    std::string model;  // file name of the model it was held with
    std::vector<engine::ChatMessage> messages;
};

// JSON. The file is there as a whole or not at all; one that is there is replaced. Throws bmoe::Error.
void write_chat(const std::string &path, const SavedChat &chat);

// Throws bmoe::Error, which says what is wrong with the file.
SavedChat read_chat(const std::string &path);

}  // namespace bmoe::cli
