// bmoe::Error and text for it.
#pragma once

#include <sstream>
#include <string>

#include "bmoe/error.h"

namespace bmoe {

// Concatenates its arguments as text; for messages, not for hot paths.
template <typename... Args>
std::string cat(const Args &...args) {
    std::ostringstream out;
    (out << ... << args);
    return out.str();
}

}  // namespace bmoe
