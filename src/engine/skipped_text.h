// What llama.cpp's parser of a chat format reads over without giving it out.
#pragma once

#include <string>

#include "engine/answer_format.h"

namespace bmoe::engine {

struct SkippedText {
    // The parts of an answer that are neither reasoning nor content, as the model wrote them, unless they are the format's own
    // words: a parser stops at a closing marker that nothing opened, or passes a call of a tool that nobody offered.
    std::string text;
    // At its end, what could have become a marker, directly after reasoning or content: now it belongs to that.
    std::string begun;
    bool begun_in_reasoning = false;
};

// Empty for an answer that is not of the format.
SkippedText skipped_text(const AnswerFormat &format, const std::string &answer);

}  // namespace bmoe::engine
