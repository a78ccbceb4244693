#include "tests/apps/recorded_run.h"

#include <sstream>

namespace bmoe::apps::test {

std::map<std::string, int> expect_documented(const std::string &text, const std::string &kind) {
    const DocumentedLines forms(BMOE_TELEMETRY_DOC, kind);
    EXPECT_GT(forms.forms(), 0U) << kind;
    std::map<std::string, int> count;
    for (const std::string &line : lines_of(text)) {
        const std::string form = forms.form_of(line);
        EXPECT_NE(form, "") << kind << " does not have: " << line;
        ++count[form];
    }
    return count;
}

std::vector<std::string> split(const std::string &text, char at) {
    std::istringstream in(text);
    std::vector<std::string> parts;
    for (std::string part; std::getline(in, part, at);) {
        parts.push_back(part);
    }
    return parts;
}

Table::Table(const std::string &text) {
    for (const std::string &line : lines_of(text)) {
        if (line.starts_with("# ")) {
            const size_t equals = line.find('=');
            preamble[line.substr(2, equals - 2)] = equals == std::string::npos ? "" : line.substr(equals + 1);
        } else if (columns.empty()) {
            columns = split(line, ',');
        } else {
            const auto values = split(line, ',');
            auto &row = rows.emplace_back();
            for (size_t i = 0; i < values.size(); ++i) {
                row[columns.at(i)] = values[i];
            }
        }
    }
}

std::vector<std::map<std::string, std::string>> Table::of_kind(const std::string &kind) const {
    std::vector<std::map<std::string, std::string>> found;
    for (const auto &row : rows) {
        if (row.at("row") == kind) {
            found.push_back(row);
        }
    }
    return found;
}

void RecordedRun::expect_only_a_summary() const {
    expect_documented(read_file(csv_), "csv");
    const Table csv(read_file(csv_));
    EXPECT_TRUE(csv.preamble.contains("model"));
    ASSERT_EQ(csv.rows.size(), 1U);
    EXPECT_EQ(csv.rows.back().at("row"), "summary");
    EXPECT_EQ(csv.rows.back().at("tokens"), "0");
}

}  // namespace bmoe::apps::test
