// What the machine was like when a run began.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace bmoe::bench {

// An object: time (UTC), load (averages of 1, 5 and 15 min), mem_available_bytes, pressure (share of time, in percent of the
// last 10 s, in which some task waited for cpu, io, memory), cpu_mhz (per core). What the system does not tell is left out.
// `root` is prefixed to /proc and /sys.
nlohmann::json entry_state(const std::string &root = "");

}  // namespace bmoe::bench
