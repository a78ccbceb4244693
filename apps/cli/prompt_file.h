// A prompt out of a file.
#pragma once

#include <string>
#include <string_view>

namespace bmoe::cli {

// All of the file at `path`, or of standard input for "-". Throws bmoe::Error if it cannot be read or check_prompt() refuses it.
std::string read_prompt_file(const std::string &path);

// Throws bmoe::Error, naming `source`, if `text` holds a NUL byte or is not UTF-8: a tokenizer would drop or replace that
// silently.
void check_prompt(std::string_view text, const std::string &source);

}  // namespace bmoe::cli
