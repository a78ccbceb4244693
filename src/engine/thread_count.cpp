#include "engine/thread_count.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "common.h"

namespace bmoe::engine {

int usable_processors() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

int default_threads() { return std::clamp(common_cpu_get_num_math(), 1, usable_processors()); }

int sensible_threads(int asked, const std::function<void(const std::string &)> &note) {
    const int processors = usable_processors();
    if (asked <= processors) {
        return asked;
    }
    if (note) {
        note(cat(asked, " threads are more than the ", processors, " processors that there are; ", processors,
                 " are used"));
    }
    return processors;
}

}  // namespace bmoe::engine
