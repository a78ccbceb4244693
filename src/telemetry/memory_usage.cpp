#include "telemetry/memory_usage.h"

#include <cstdio>
#include <memory>
#include <string_view>

namespace bmoe::telemetry {

namespace {

struct Field {
    std::string_view name;  // with its colon
    int64_t &bytes;
};

// Lines of "name: number kB"; the fields are in the order of the file.
void read_fields(const char *path, std::initializer_list<Field> fields) {
    const std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path, "re"), std::fclose);
    char line[256];
    const auto *field = fields.begin();
    while (file != nullptr && field != fields.end() && std::fgets(line, sizeof(line), file.get()) != nullptr) {
        long long kib = 0;
        if (std::string_view(line).starts_with(field->name) &&
            std::sscanf(line + field->name.size(), "%lld", &kib) == 1) {
            field->bytes = kib * 1024;
            ++field;
        }
    }
}

}  // namespace

MemoryUsage MemoryUsage::now() {
    MemoryUsage usage;
    read_fields("/proc/self/status", {{"VmRSS:", usage.rss}, {"VmSwap:", usage.swapped}});
    read_fields("/proc/meminfo", {{"MemAvailable:", usage.available}});
    return usage;
}

}  // namespace bmoe::telemetry
