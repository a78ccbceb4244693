// How many threads compute.
#pragma once

#include <functional>
#include <string>

namespace bmoe::engine {

// Processors that this process may run on at once: in a container the machine has more.
int usable_processors();

// One for each physical core, without efficiency cores.
int default_threads();

// `asked`, or as many as there are processors where that is fewer; `note` is told so. More would wait for each other in turns:
// a token would take a hundred times as long. Where they are wanted all the same, Options::threads takes them.
int sensible_threads(int asked, const std::function<void(const std::string &)> &note);

}  // namespace bmoe::engine
