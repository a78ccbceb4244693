// Chat templates of real models, which llama.cpp's tree has for its own tests.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace bmoe::engine::test {

// Empty if this tree has no such file.
inline std::string llama_template(const std::string &name) {
    std::ifstream in(std::string(BMOE_TEMPLATES) + "/" + name + ".jinja");
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace bmoe::engine::test
