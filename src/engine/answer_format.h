// How a model writes its answers, for llama.cpp's parser. Internal: includes llama.cpp's helpers.
#pragma once

#include <string>
#include <vector>

#include "chat.h"

namespace bmoe::engine {

struct AnswerFormat {
    common_chat_parser_params parser;
    std::vector<std::string> stops;  // texts that end an answer although no token of the model's does
};

}  // namespace bmoe::engine
