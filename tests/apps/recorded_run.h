// What a run of the command writes down, and how the documentation says it looks.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/apps/documented_lines.h"
#include "tests/apps/run_command.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {

// Every line has a form in docs/telemetry.md, in the blocks of this kind; returns how often each occurred.
std::map<std::string, int> expect_documented(const std::string &text, const std::string &kind);

std::vector<std::string> split(const std::string &text, char at);

// A CSV with a preamble of "# " lines, by the names of its columns.
struct Table {
    std::map<std::string, std::string> preamble;
    std::vector<std::string> columns;
    std::vector<std::map<std::string, std::string>> rows;

    explicit Table(const std::string &text);

    std::vector<std::map<std::string, std::string>> of_kind(const std::string &kind) const;
};

class RecordedRun : public testing::Test {
  protected:
    bmoe::test::Scratch scratch_;
    const std::string csv_ = scratch_.file("run.csv");
    const std::string routes_ = scratch_.file("run.route.csv");
    const std::string reads_ = scratch_.file("run.io.csv");
    const std::string traces_ = " --route-trace " + quoted(routes_) + " --io-trace " + quoted(reads_);
    const std::string csv_flag_ = " --csv " + quoted(csv_);

    // Of a run that decoded nothing: the preamble and the summary.
    void expect_only_a_summary() const;
};

}  // namespace bmoe::apps::test
