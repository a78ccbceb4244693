#include "bench/report.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "bench/statistics.h"

namespace bmoe::bench {

namespace {

struct Column {
    const char *figure;
    const char *title;
    double scale;
    int decimals;
};

constexpr Column kMedians[] = {
    {"decode_tokens_per_second", "tok/s", 1, 2},
    {"step_median_seconds", "step ms", 1e3, 1},
    {"first_tokens_seconds", "first 8 ms", 1e3, 1},
    {"first_tokens_ratio", "/later", 1, 2},
    {"mib_per_token", "MiB/tok", 1, 1},
    {"hit_rate", "hit %", 100, 1},
    {"stall_seconds", "stall s", 1, 2},
    {"bound_reached", "bound %", 100, 0},
    {"read_gib_per_second", "GiB/s", 1, 2},
    {"user_seconds", "user s", 1, 2},
    {"system_seconds", "system s", 1, 2},
    {"major_faults_per_token", "majflt", 1, 1},
    {"minor_faults_per_token", "minflt", 1, 1},
    {"load_seconds", "load s", 1, 2},
    {"first_token_seconds", "first s", 1, 2},
    {"prompt_tokens_per_second", "prompt tok/s", 1, 1},
    {"cache_mib", "cache MiB", 1, 0},
    {"peak_rss_bytes", "RSS MiB", 1.0 / (1 << 20), 0},
};

constexpr Column kRatios[] = {
    {"decode_tokens_per_second", "tok/s", 1, 3},  {"step_median_seconds", "step ms", 1, 3},
    {"first_tokens_seconds", "first 8 ms", 1, 3}, {"mib_per_token", "MiB/tok", 1, 3},
    {"first_token_seconds", "first s", 1, 3},     {"prompt_tokens_per_second", "prompt tok/s", 1, 3},
};

std::string number(double value, int decimals) {
    char text[64];
    std::snprintf(text, sizeof(text), "%.*f", decimals, value);
    return text;
}

std::vector<std::string> headings(std::initializer_list<const char *> first, std::span<const Column> columns) {
    std::vector<std::string> row(first.begin(), first.end());
    for (const Column &column : columns) {
        row.emplace_back(column.title);
    }
    return row;
}

// A figure of one cell by pair; pairs that were not run are not measured.
std::vector<std::optional<double>> by_pair(const std::vector<RunRecord> &records, size_t cell,
                                           const std::string &figure) {
    std::vector<std::optional<double>> values;
    for (const RunRecord &record : records) {
        if (record.cell == cell) {
            values.resize(std::max(values.size(), static_cast<size_t>(record.pair)));
            values[record.pair - 1] = record.figure(figure);
        }
    }
    return values;
}

std::vector<double> measured(const std::vector<std::optional<double>> &values) {
    std::vector<double> all;
    for (const auto &value : values) {
        if (value) {
            all.push_back(*value);
        }
    }
    return all;
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>> &rows) {
    std::vector<size_t> widths;
    for (const auto &row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (const auto &row : rows) {
        for (size_t i = 0; i < row.size(); ++i) {
            const std::string padding(widths[i] - row[i].size(), ' ');
            text += i == 0 ? row[i] + padding : "  " + padding + row[i];
        }
        text += '\n';
    }
    return text;
}

std::string median_table(const std::vector<Cell> &cells, const std::vector<RunRecord> &records) {
    std::vector<std::vector<std::string>> rows = {headings({"median", "runs"}, kMedians)};
    std::string failures;
    for (size_t cell = 0; cell < cells.size(); ++cell) {
        size_t ok = 0;
        size_t all = 0;
        for (const RunRecord &record : records) {
            if (record.cell != cell) {
                continue;
            }
            ++all;
            ok += record.ok() ? 1 : 0;
            if (!record.ok()) {
                failures += cat("FAILED: ", cells[cell].name, ", pair ", record.pair, ": ", record.error, "\n");
            }
        }
        std::vector<std::string> row = {cells[cell].name, ok == all ? cat(all) : cat(ok, "/", all)};
        for (const Column &column : kMedians) {
            const auto value = median(measured(by_pair(records, cell, column.figure)));
            row.push_back(value ? number(*value * column.scale, column.decimals) : "-");
        }
        rows.push_back(std::move(row));
    }
    return format_table(rows) + failures;
}

std::string ratio_table(const std::vector<Cell> &cells, const std::vector<RunRecord> &records) {
    if (cells.size() < 2) {
        return {};
    }
    std::vector<std::vector<std::string>> rows = {headings({"ratio A/B, median (min..max)"}, kRatios)};
    for (size_t other = 1; other < cells.size(); ++other) {
        std::vector<std::string> row = {cat(cells[0].name, " / ", cells[other].name)};
        for (const Column &column : kRatios) {
            const auto ratio =
                ratio_of_pairs(by_pair(records, 0, column.figure), by_pair(records, other, column.figure));
            row.push_back(ratio ? cat(number(ratio->median, column.decimals), " (", number(ratio->min, column.decimals),
                                      "..", number(ratio->max, column.decimals), ")")
                                : "-");
        }
        rows.push_back(std::move(row));
    }
    return format_table(rows);
}

}  // namespace bmoe::bench
