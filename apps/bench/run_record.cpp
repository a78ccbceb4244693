#include "bench/run_record.h"

#include <sys/wait.h>

#include <sstream>

#include "base/error.h"

namespace bmoe::bench {

namespace {

using nlohmann::json;

constexpr const char *kFigures[] = {
    "mode",
    "mode_note",
    "notes",
    "threads",
    "load_seconds",
    "first_token_seconds",
    "prompt_tokens",
    "prompt_repeats",
    "prompt_seconds",
    "prompt_tokens_per_second",
    "prompt_read_bytes",
    "prompt_read_gib_per_second",
    "prompt_stall_seconds",
    "warmed_bytes",
    "generated",
    "step_seconds",
    "step_median_seconds",
    "first_tokens_seconds",
    "first_tokens_ratio",
    "decode_seconds",
    "decode_tokens_per_second",
    "user_seconds",
    "system_seconds",
    "major_faults_per_token",
    "minor_faults_per_token",
    "peak_rss_bytes",
    "cache_mib",
    "policy",
    "hit_rate",
    "read_bytes",
    "mib_per_token",
    "read_gib_per_second",
    "stall_seconds",
    "o_direct",
    "huge_pages",
    "route_replay",
};

// The last line that begins with "error:", else the last that holds anything.
std::string error_line(const std::string &text) {
    std::istringstream lines(text);
    std::string last;
    std::string error;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("error:")) {
            error = line;
        }
        if (!line.empty()) {
            last = line;
        }
    }
    return error.empty() ? last : error;
}

std::string describe_end(int status) {
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        return cat("the run was ended by signal ", signal,
                   signal == SIGKILL ? "; the kernel does that when its memory cgroup is full" : "");
    }
    return cat("the run ended with status ", WEXITSTATUS(status));
}

}  // namespace

std::span<const char *const> figure_names() { return kFigures; }

std::optional<double> RunRecord::figure(const std::string &name) const {
    const auto found = figures.find(name);
    return ok() && found != figures.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

json RunRecord::to_json() const {
    json line = context;
    line["position"] = cell;
    line["pair"] = pair;
    line["ok"] = ok();
    line["error"] = ok() ? json() : json(error);
    line["figures"] = figures;
    return line;
}

void judge(const ChildOutput &output, RunRecord &record) {
    record.figures = nullptr;
    if (!WIFEXITED(output.wait_status) || WEXITSTATUS(output.wait_status) != 0) {
        const std::string line = error_line(output.err);
        record.error = cat(describe_end(output.wait_status), line.empty() ? "" : ": ", line);
        return;
    }
    json figures = json::parse(output.out, nullptr, false);
    if (!figures.is_object()) {
        record.error = "the run did not print a JSON object";
        return;
    }
    for (const char *name : kFigures) {
        if (!figures.contains(name)) {
            record.error = cat("the run's figures lack ", name);
            return;
        }
    }
    record.figures = std::move(figures);
}

}  // namespace bmoe::bench
