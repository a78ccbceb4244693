// The one exception type of bmoe: a sentence for the user that names the file, tensor or flag and what to do.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace bmoe {

class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Concatenates its arguments as text; for messages, not for hot paths.
template <typename... Args>
std::string cat(const Args &...args) {
    std::ostringstream out;
    (out << ... << args);
    return out.str();
}

}  // namespace bmoe
