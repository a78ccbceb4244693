#include "bench/entry_state.h"

#include <ctime>
#include <fstream>

#include "base/error.h"

namespace bmoe::bench {

namespace {

using nlohmann::json;

std::string utc_time() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

json load_averages(const std::string &root) {
    std::ifstream file(root + "/proc/loadavg");
    double one = 0, five = 0, fifteen = 0;
    return file >> one >> five >> fifteen ? json{one, five, fifteen} : json();
}

json mem_available(const std::string &root) {
    std::ifstream file(root + "/proc/meminfo");
    for (std::string word; file >> word;) {
        uint64_t kib = 0;
        if (word == "MemAvailable:" && file >> kib) {
            return kib * 1024;
        }
    }
    return {};
}

json pressure(const std::string &root) {
    json all;
    for (const char *what : {"cpu", "io", "memory"}) {
        std::ifstream file(root + "/proc/pressure/" + what);
        std::string some;
        std::string average;
        constexpr std::string_view kAverage = "avg10=";
        if (file >> some >> average && some == "some" && average.starts_with(kAverage)) {
            all[what] = std::strtod(average.c_str() + kAverage.size(), nullptr);
        }
    }
    return all;
}

json cpu_mhz(const std::string &root) {
    json all;
    for (int core = 0;; ++core) {
        std::ifstream file(cat(root, "/sys/devices/system/cpu/cpu", core, "/cpufreq/scaling_cur_freq"));
        double khz = 0;
        if (!(file >> khz)) {
            break;
        }
        all.push_back(khz / 1000);
    }
    if (!all.is_null()) {
        return all;
    }
    std::ifstream file(root + "/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("cpu MHz")) {
            all.push_back(std::strtod(line.c_str() + line.find(':') + 1, nullptr));
        }
    }
    return all;
}

}  // namespace

json entry_state(const std::string &root) {
    json state = {{"time", utc_time()}};
    const auto add = [&](const char *name, json value) {
        if (!value.is_null()) {
            state[name] = std::move(value);
        }
    };
    add("load", load_averages(root));
    add("mem_available_bytes", mem_available(root));
    add("pressure", pressure(root));
    add("cpu_mhz", cpu_mhz(root));
    return state;
}

}  // namespace bmoe::bench
