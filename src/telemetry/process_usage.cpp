#include "telemetry/process_usage.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace bmoe::telemetry {

namespace {

// A line of /proc/self/status that gives KiB.
int64_t status_bytes(const std::string &name) {
    std::ifstream status("/proc/self/status");
    for (std::string key; status >> key;) {
        if (key == name) {
            int64_t kib = 0;
            return status >> kib ? kib * 1024 : -1;
        }
    }
    return -1;
}

double seconds(const timeval &time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

ProcessUsage ProcessUsage::now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_majflt, usage.ru_minflt};
}

ProcessUsage ProcessUsage::since(const ProcessUsage &earlier) const {
    return {user_seconds - earlier.user_seconds, system_seconds - earlier.system_seconds,
            major_faults - earlier.major_faults, minor_faults - earlier.minor_faults};
}

int64_t rss_bytes() { return status_bytes("VmRSS:"); }

int64_t peak_rss_bytes() { return status_bytes("VmHWM:"); }

}  // namespace bmoe::telemetry
