// Cuts the tokens of a run's prompt from those of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bmoe::bench {

struct TextTokens {
    std::string path;  // of the text, for errors
    std::vector<int32_t>
        first;  // of the text at the start of a prompt: with the token that the model wants there, if any
    std::vector<int32_t> again;  // of the text after others
};

struct Prompt {
    std::vector<int32_t> tokens;
    uint32_t repeats = 1;  // of the text, to have enough
};

// `n` tokens. With a `skip`, those that follow the first `skip` tokens of the text, after the model's starting token: nothing of
// a prompt of `skip` tokens is then among them, so the text is not repeated. Throws bmoe::Error if the text has no tokens, or
// too few for that.
Prompt cut_prompt(const TextTokens &text, size_t skip, size_t n);

}  // namespace bmoe::bench
