// Empties the page cache, so that no run profits from what another has read.
#pragma once

#include <string>
#include <vector>

namespace bmoe::bench {

enum class DropCache {
    kAll,    // the whole machine's, where that is permitted; else the files'
    kFiles,  // what is cached of the files
    kNone,
};

// Returns what was done, in one line for the record.
std::string drop_page_cache(DropCache what, const std::vector<std::string> &files);

}  // namespace bmoe::bench
