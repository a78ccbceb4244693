#include "telemetry/csv_log.h"

#include <algorithm>
#include <cstdio>

namespace bmoe::telemetry {

namespace {

constexpr char kColumns[] =
    "row,turn,tokens,wall_s,stall_s,expert_compute_s,reads,read_bytes,hits,misses,speculative_bytes,guessed,"
    "guessed_right,wasted_bytes,dropped,substituted,mass_forgone,majflt,minflt,user_s,system_s,rss_bytes,"
    "mem_available_bytes,swap_bytes\n";

std::string integer(int64_t value) { return std::to_string(value); }

std::string real(double value) {
    if (value < 0) {
        return "-1";
    }
    char text[32];
    std::snprintf(text, sizeof(text), "%.6f", value);
    return text;
}

// A sum of which a part was not measured is not measured.
template <typename T>
void add(T &sum, T value) {
    sum = sum < 0 || value < 0 ? -1 : sum + value;
}

void add(ExpertFigures &sum, const ExpertFigures &row) {
    add(sum.stall, row.stall);
    add(sum.compute, row.compute);
    add(sum.reads, row.reads);
    add(sum.bytes, row.bytes);
    add(sum.hits, row.hits);
    add(sum.misses, row.misses);
    add(sum.speculative_bytes, row.speculative_bytes);
    add(sum.guessed, row.guessed);
    add(sum.guessed_right, row.guessed_right);
    add(sum.wasted_bytes, row.wasted_bytes);
}

void add(LossyFigures &sum, const LossyFigures &row) {
    add(sum.dropped, row.dropped);
    add(sum.substituted, row.substituted);
    add(sum.mass_forgone, row.mass_forgone);
}

// Memory is not added up: the worst of it counts.
void take_worse(MemoryUsage &worst, const MemoryUsage &now) {
    worst.swapped = std::max(worst.swapped, now.swapped);
    worst.available = worst.available < 0 ? now.available : std::min(worst.available, now.available);
}

}  // namespace

void CsvLog::begin(const std::vector<std::pair<std::string, std::string>> &configuration) {
    file_.write(cat("# bmoe_csv v", kVersion, '\n'));
    for (const auto &[name, value] : configuration) {
        file_.write(cat("# ", name, '=', value, '\n'));
    }
    file_.write(kColumns);
    file_.flush();
}

void CsvLog::add_prompt(const CsvRow &row) {
    write("prompt", row);
    take_worse(sum_.memory, row.memory);
}

void CsvLog::add_token(const CsvRow &row) {
    write("token", row);
    if (sum_.tokens++ == 0) {
        sum_.experts = row.experts;
        sum_.lossy = row.lossy;
    } else {
        add(sum_.experts, row.experts);
        add(sum_.lossy, row.lossy);
    }
    sum_.turn = row.turn;
    sum_.seconds += row.seconds;
    sum_.usage.user_seconds += row.usage.user_seconds;
    sum_.usage.system_seconds += row.usage.system_seconds;
    sum_.usage.major_faults += row.usage.major_faults;
    sum_.usage.minor_faults += row.usage.minor_faults;
    take_worse(sum_.memory, row.memory);
}

void CsvLog::add_summary(int64_t peak_rss) {
    sum_.memory.rss = peak_rss;
    write("summary", sum_);
}

void CsvLog::write(const char *kind, const CsvRow &row) {
    const ExpertFigures &experts = row.experts;
    const std::string columns[] = {
        kind,
        std::to_string(row.turn),
        std::to_string(row.tokens),
        real(row.seconds),
        real(experts.stall),
        real(experts.compute),
        integer(experts.reads),
        integer(experts.bytes),
        integer(experts.hits),
        integer(experts.misses),
        integer(experts.speculative_bytes),
        integer(experts.guessed),
        integer(experts.guessed_right),
        integer(experts.wasted_bytes),
        integer(row.lossy.dropped),
        integer(row.lossy.substituted),
        real(row.lossy.mass_forgone),
        integer(row.usage.major_faults),
        integer(row.usage.minor_faults),
        real(row.usage.user_seconds),
        real(row.usage.system_seconds),
        integer(row.memory.rss),
        integer(row.memory.available),
        integer(row.memory.swapped),
    };
    std::string line;
    for (const std::string &column : columns) {
        line += (line.empty() ? "" : ",") + column;
    }
    file_.write(line + '\n');
    file_.flush();
}

}  // namespace bmoe::telemetry
