// Names from a file, made fit for a message on a terminal.
#pragma once

#include <ostream>
#include <string_view>

namespace bmoe::gguf {

// Prints as 'name', with control characters as \xNN and very long names cut. Costs nothing until printed.
struct Quoted {
    std::string_view name;
};
inline Quoted quote(std::string_view name) { return {name}; }

std::ostream &operator<<(std::ostream &out, Quoted quoted);

}  // namespace bmoe::gguf
