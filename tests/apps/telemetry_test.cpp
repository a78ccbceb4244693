// docs/telemetry.md against runs of one prompt: every line has a form that the page promises, and figures that can be counted in
// two ways agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "cache/route_trace.h"
#include "tests/apps/recorded_run.h"
#include "tests/support/chat_model.h"

namespace bmoe::apps::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kDemo = BMOE_DEMO_MODEL;
const std::string kTiny = BMOE_TINY_MODELS;
const std::string kDoc = BMOE_TELEMETRY_DOC;
constexpr uint32_t kTokens = 24;

std::string cli(const std::string &model, const std::string &flags) {
    return quoted(BMOE_CLI) + " -m " + quoted(model) +
           " --no-warm-start -t 2 -c 512 -n 24 -p 'And the king said unto' " + flags;
}

std::string streamed(const std::string &model, const std::string &flags) {
    return cli(model, "--moe-stream on " + flags);
}

// The value of a key=value or the number that follows `before` in a line of stderr.
double number_after(const std::string &text, const std::string &before) {
    const size_t at = text.find(before);
    return at == std::string::npos ? -2 : std::stod(text.substr(at + before.size()));
}

using Telemetry = RecordedRun;

TEST_F(Telemetry, EveryLineOfARunHasItsDocumentedForm) {
    for (const char *cache : {"2", "0"}) {
        const Finished run = run_command(
            streamed(kDemo, std::string("--cache-mb ") + cache + " --progress --route-logits 6" + csv_flag_ + traces_));
        ASSERT_EQ(run.status, 0) << run.err;
        const auto lines = expect_documented(run.err, "stderr");
        EXPECT_THAT(run.err, ContainsRegex("progress: phase=prompt tokens=[0-9]+"));
        EXPECT_THAT(run.err, HasSubstr("progress: phase=decode tokens=23 of=23 "));
        for (const char *name : {"generation:", "compute:", "moe-stream:", "moe-cache:", "prompt-bound:", "bound:"}) {
            EXPECT_THAT(run.err, HasSubstr(std::string("\n") + name)) << cache;
        }
        EXPECT_EQ(run.err.find("\nmoe-lookahead: ") != std::string::npos, std::string(cache) == "2");
        const auto csv = expect_documented(read_file(csv_), "csv");
        EXPECT_EQ(csv.size(), 4U);
        expect_documented(read_file(routes_), "route-trace");
        expect_documented(read_file(reads_), "io-trace");
    }
}

TEST_F(Telemetry, EveryColumnAndKeyOfTheCsvIsDocumented) {
    ASSERT_EQ(run_command(streamed(kDemo, "--cache-mb 2" + csv_flag_)).status, 0);
    const Table table(read_file(csv_));
    const std::string doc = read_file(kDoc);
    for (const std::string &column : table.columns) {
        EXPECT_THAT(doc, ContainsRegex("\n\\| (`[a-z_]+`, )?`" + column + "`[^|]* \\|"));
    }
    for (const auto &[key, value] : table.preamble) {
        EXPECT_TRUE(key == "bmoe_csv v1" || doc.find('`' + key + '`') != std::string::npos) << key;
    }
}

TEST_F(Telemetry, CsvHasARowForEachTokenAndTheirSum) {
    const Finished run = run_command(streamed(kDemo, "--cache-mb 2 --lookahead 2" + csv_flag_));
    ASSERT_EQ(run.status, 0) << run.err;
    const Table table(read_file(csv_));
    const auto tokens = table.of_kind("token");
    ASSERT_EQ(tokens.size(), kTokens - 1);
    ASSERT_EQ(table.of_kind("prompt").size(), 1U);
    ASSERT_EQ(table.of_kind("summary").size(), 1U);
    EXPECT_EQ(table.rows.back().at("row"), "summary");
    EXPECT_EQ(table.preamble.at("instrumented"), "none");
    EXPECT_EQ(table.preamble.at("mode"), "stream");
    EXPECT_EQ(table.preamble.at("lookahead_depth"), "2");
    EXPECT_EQ(table.preamble.at("cache_wanted"), std::to_string(2 << 20));
    const auto summary = table.rows.back();
    EXPECT_EQ(summary.at("tokens"), std::to_string(tokens.size()));
    for (const char *column : {"wall_s", "stall_s", "expert_compute_s", "reads", "read_bytes", "hits", "misses",
                               "speculative_bytes", "guessed", "guessed_right", "wasted_bytes", "dropped",
                               "substituted", "mass_forgone", "majflt", "minflt", "user_s", "system_s"}) {
        double sum = 0;
        for (const auto &token : tokens) {
            const double value = std::stod(token.at(column));
            EXPECT_GE(value, 0) << column;
            sum += value;
        }
        EXPECT_NEAR(std::stod(summary.at(column)), sum, 1e-4) << column;
    }
    EXPECT_GT(std::stod(summary.at("expert_compute_s")), 0);
    EXPECT_GT(std::stod(summary.at("read_bytes")), 0);
    for (const auto &token : tokens) {
        EXPECT_LE(std::stod(token.at("expert_compute_s")), std::stod(token.at("wall_s")) + 1e-6);
        EXPECT_GT(std::stod(token.at("rss_bytes")), 0);
        EXPECT_GE(std::stod(token.at("mem_available_bytes")), std::stod(summary.at("mem_available_bytes")));
        EXPECT_GE(std::stod(token.at("swap_bytes")), 0);
    }
    EXPECT_NEAR(number_after(run.err, "moe-stream: read "), std::stod(summary.at("read_bytes")) / (1 << 20), 1);
    EXPECT_NEAR(number_after(run.err, "moe-cache: "),
                100 * std::stod(summary.at("hits")) / (std::stod(summary.at("hits")) + std::stod(summary.at("misses"))),
                0.1);
}

TEST_F(Telemetry, WhatARunDoesNotMeasureIsMinusOne) {
    const Finished run = run_command(cli(kDemo, "--moe-stream off --progress" + csv_flag_));
    ASSERT_EQ(run.status, 0) << run.err;
    expect_documented(run.err, "stderr");
    expect_documented(read_file(csv_), "csv");
    const Table plain(read_file(csv_));
    EXPECT_EQ(plain.preamble.at("mode"), "mmap");
    for (const auto &row : plain.rows) {
        EXPECT_EQ(row.at("stall_s"), "-1");
        EXPECT_EQ(row.at("read_bytes"), "-1");
        EXPECT_EQ(row.at("dropped"), "-1");
        EXPECT_GE(std::stod(row.at("wall_s")), 0);
    }
    EXPECT_THAT(run.err, HasSubstr("hit_percent=-1.0 mib_per_token=-1.0 stall_s_per_token=-1.0000"));

    const Finished one = run_command(streamed(kDemo, "--cache-mb 2 -n 1 --progress" + csv_flag_));
    ASSERT_EQ(one.status, 0) << one.err;
    expect_documented(one.err, "stderr");
    expect_documented(read_file(csv_), "csv");
    EXPECT_THAT(one.err, HasSubstr("generation: 1 tokens, -1.0000 s/token (-1.00 tok/s), median -1.0000 s"));
    const Table table(read_file(csv_));
    EXPECT_EQ(table.of_kind("token").size(), 0U);
    EXPECT_EQ(table.rows.back().at("tokens"), "0");
    EXPECT_EQ(table.rows.back().at("stall_s"), "-1");
    EXPECT_GT(std::stod(table.of_kind("prompt").front().at("read_bytes")), 0);
}

// Experts of each decoded token, layer after layer.
std::vector<std::vector<int32_t>> decoded(const std::string &path) {
    std::vector<std::vector<int32_t>> experts;
    for (const cache::RouteRow &row : cache::read_route_trace(path).rows) {
        if (row.phase == cache::Phase::kDecode) {
            experts.push_back(row.experts);
        }
    }
    return experts;
}

TEST_F(Telemetry, AReplayOfATracedRunRoutesAsItDid) {
    for (const std::string &model : {kDemo, kTiny + "/gpt-oss.gguf", kTiny + "/deepseek2.gguf"}) {
        const Finished run = run_command(streamed(model, "--cache-mb 0 --route-trace " + quoted(routes_)));
        ASSERT_EQ(run.status, 0) << run.err;
        const std::string again = scratch_.file("again.route.csv");
        const Finished replay = run_command(
            streamed(model, "--cache-mb 0 --route-replay " + quoted(routes_) + " --route-trace " + quoted(again)));
        ASSERT_EQ(replay.status, 0) << replay.err;
        expect_documented(replay.err, "stderr");
        EXPECT_EQ(replay.out, run.out) << model;
        EXPECT_EQ(decoded(again), decoded(routes_)) << model;
        EXPECT_FALSE(decoded(again).empty());
        // Not because replays are ignored: with the experts of another token the text is another.
        const auto lines = lines_of(read_file(routes_));
        std::ofstream other(again);
        for (const std::string &line : lines) {
            auto columns = split(line, ',');
            if (columns.size() == 9 && columns[0] == "0" && columns[1] == "1") {
                columns[5] = columns[4];
                std::string changed;
                for (const std::string &column : columns) {
                    changed += (changed.empty() ? "" : ",") + column;
                }
                other << changed << '\n';
            } else {
                other << line << '\n';
            }
        }
        other.close();
        const Finished changed = run_command(streamed(model, "--cache-mb 0 --route-replay " + quoted(again)));
        ASSERT_EQ(changed.status, 0) << changed.err;
        if (model == kDemo) {
            EXPECT_NE(changed.out, run.out);
        }
    }
}

TEST_F(Telemetry, RouteTraceAgreesWithTheCacheAndHoldsTheRoutersScores) {
    const Finished run =
        run_command(streamed(kDemo, "--cache-mb 2 --lookahead 2 --route-logits 6" + csv_flag_ + traces_));
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(Table(read_file(csv_)).preamble.at("instrumented"), "route-trace,route-logits,io-trace");
    const auto summary = Table(read_file(csv_)).rows.back();
    const Table trace(read_file(routes_));
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t with_scores = 0;
    uint64_t tokens = 0;
    std::set<std::string> best;
    for (const auto &row : trace.rows) {
        if (row.at("phase") == "1") {
            (row.at("residency") == "1" ? hits : misses) += 1;
        }
        if (row.at("slot") == "0") {
            ++tokens;
            best.clear();
            const bool has_scores = row.contains("scores") && !row.at("scores").empty();
            const auto scores = has_scores ? split(row.at("scores"), ' ') : std::vector<std::string>{};
            with_scores += scores.empty() ? 0 : 1;
            EXPECT_TRUE(scores.empty() || scores.size() == 6) << row.at("scores");
            for (size_t i = 0; i < scores.size(); ++i) {
                const auto pair = split(scores[i], ':');
                EXPECT_TRUE(i == 0 || std::stod(split(scores[i - 1], ':')[1]) >= std::stod(pair[1]));
                best.insert(pair[0]);
            }
        }
        EXPECT_TRUE(best.empty() || best.contains(row.at("expert")));
        EXPECT_GT(std::stod(row.at("weight")), 0);
    }
    EXPECT_EQ(std::to_string(hits), summary.at("hits"));
    EXPECT_EQ(std::to_string(misses), summary.at("misses"));
    // Where two scores are as good as equal, rounding may decide otherwise.
    EXPECT_GE(with_scores, tokens * 9 / 10);
    EXPECT_GT(tokens, 0U);
}

TEST_F(Telemetry, LossyRoutingIsCountedInTheCsvAndTheSummary) {
    const Finished run =
        run_command(streamed(kDemo, "--cache-mb 2 --quality-budget 5 --route-trace " + quoted(routes_) + csv_flag_));
    ASSERT_EQ(run.status, 0) << run.err;
    expect_documented(run.err, "stderr");
    expect_documented(read_file(csv_), "csv");
    const auto summary = Table(read_file(csv_)).rows.back();
    EXPECT_EQ(number_after(run.err, "moe-drop: dropped "), std::stod(summary.at("dropped")));
    EXPECT_EQ(number_after(run.err, "moe-substitute: substituted "), std::stod(summary.at("substituted")));
    EXPECT_GT(std::stod(summary.at("dropped")) + std::stod(summary.at("substituted")), 0);
    EXPECT_GT(std::stod(summary.at("mass_forgone")), 0);
    // What was not used was not read either.
    uint64_t unused = 0;
    for (const auto &row : Table(read_file(routes_)).rows) {
        unused += row.at("phase") == "1" && row.at("residency") == "0" && row.at("expert_bytes") == "0" ? 1 : 0;
    }
    EXPECT_EQ(static_cast<double>(unused), std::stod(summary.at("dropped")) + std::stod(summary.at("substituted")));
}

TEST_F(Telemetry, IoTraceHasEveryReadThatTheCsvCounts) {
    for (const char *engine : {"lanes", "auto"}) {
        const Finished run = run_command(
            streamed(kDemo, std::string("--cache-mb 2 --lookahead 0 --io-engine ") + engine + csv_flag_ + traces_));
        ASSERT_EQ(run.status, 0) << run.err;
        const Table csv(read_file(csv_));
        const Table reads(read_file(reads_));
        uint64_t bytes = 0;
        for (const auto &read : reads.rows) {
            EXPECT_EQ(read.at("result"), "ok");
            EXPECT_EQ(read.at("priority"), "demand");
            EXPECT_LE(std::stoull(read.at("asked_us")), std::stoull(read.at("started_us")));
            EXPECT_LE(std::stoull(read.at("started_us")), std::stoull(read.at("done_us")));
            bytes += std::stoull(read.at("bytes"));
        }
        uint64_t counted = 0;
        uint64_t counted_reads = 0;
        for (const auto &row : csv.rows) {
            counted += row.at("row") == "summary" ? 0 : std::stoull(row.at("read_bytes"));
            counted_reads += row.at("row") == "summary" ? 0 : std::stoull(row.at("reads"));
        }
        EXPECT_EQ(bytes, counted);
        EXPECT_EQ(reads.rows.size(), counted_reads);
    }
}

TEST_F(Telemetry, WarmStartAndGuessesAreInTheIoTrace) {
    const std::string warm = quoted(BMOE_CLI) + " -m " + quoted(kDemo) + " --profile " +
                             quoted(scratch_.file("profile")) +
                             " --moe-stream --cache-mb 6 --lookahead 4 -t 2 -c 512 -n 24 -p 'And the king said unto'";
    ASSERT_EQ(run_command(warm).status, 0);
    const Finished run = run_command(warm + " --io-trace " + quoted(reads_));
    ASSERT_EQ(run.status, 0) << run.err;
    expect_documented(read_file(reads_), "io-trace");
    const double warmed = number_after(run.err, "warm start ");
    uint64_t speculative = 0;
    for (const auto &read : Table(read_file(reads_)).rows) {
        speculative += read.at("priority") == "speculative" ? std::stoull(read.at("bytes")) : 0;
    }
    EXPECT_GE(static_cast<double>(speculative) / (1 << 20) + 1, warmed);
}

TEST_F(Telemetry, AnUnwritableFileIsAnErrorBeforeTheModelIsOpened) {
    const std::string nowhere = scratch_.file("nowhere/file");
    for (const char *flag : {"--csv", "--route-trace", "--io-trace"}) {
        const Finished run = run_command(streamed(scratch_.file("missing.gguf"), flag + (" " + quoted(nowhere))));
        EXPECT_EQ(run.status, 1);
        EXPECT_THAT(run.err,
                    AllOf(HasSubstr("error: " + std::string(flag) + " " + nowhere), Not(HasSubstr("missing"))));
    }
}

TEST_F(Telemetry, AFullDiskIsAnErrorAtTheEndAndTheTextIsThere) {
    const Finished plain = run_command(streamed(kDemo, "--cache-mb 2"));
    for (const char *flag : {"--csv", "--route-trace", "--io-trace"}) {
        const Finished run = run_command(streamed(kDemo, std::string("--cache-mb 2 ") + flag + " /dev/full"));
        EXPECT_EQ(run.status, 1);
        EXPECT_EQ(run.out, plain.out);
        EXPECT_THAT(run.err, HasSubstr("bound:"));
        EXPECT_THAT(run.err, HasSubstr("error: " + std::string(flag) +
                                       " /dev/full: cannot be written to (No space left on "
                                       "device)"));
        EXPECT_EQ(run.err.find("error:"), run.err.rfind("error:")) << run.err;
        expect_documented(run.err, "stderr");
    }
}

TEST_F(Telemetry, AnInterruptLeavesCompleteFiles) {
    const std::string text = scratch_.file("text");
    std::ofstream(text).flush();  // for the loop that watches it
    const Finished run = run_command(streamed(kDemo, "--cache-mb 2 -c 0 -n 100000 --progress" + csv_flag_ + traces_) +
                                     " >" + quoted(text) + " & pid=$!; while [ $(wc -c <" + quoted(text) +
                                     ") -lt 60 ] && kill -0 $pid; do :; done; kill -TERM $pid; wait $pid");
    EXPECT_TRUE(run.status == 143 || run.status == 0) << run.status << run.err;
    expect_documented(run.err, "stderr");
    expect_documented(read_file(csv_), "csv");
    expect_documented(read_file(routes_), "route-trace");
    expect_documented(read_file(reads_), "io-trace");
    const Table csv(read_file(csv_));
    ASSERT_FALSE(csv.rows.empty());
    EXPECT_EQ(csv.rows.back().at("row"), "summary");
    const auto steps = csv.of_kind("token").size();
    EXPECT_GT(steps, 0U);
    const size_t layers = cache::read_route_trace(routes_).expert_bytes.size();
    EXPECT_EQ(decoded(routes_).size(), steps * layers);
    const Finished replay = run_command(streamed(kDemo, "--cache-mb 2 --route-replay " + quoted(routes_)));
    EXPECT_EQ(replay.status, 0) << replay.err;
}

TEST_F(Telemetry, AnInterruptWhileThePromptIsCutIntoTokensLeavesTheSummary) {
    const std::string prompt = scratch_.file("prompt");
    std::ofstream file(prompt);
    for (int i = 0; i < 1 << 17; ++i) {
        file << "And the king said unto him, ";
    }
    file.close();
    const Finished run = run_command(quoted(BMOE_CLI) + " -m " + quoted(kDemo) +
                                     " --moe-stream on --cache-mb 2 --no-warm-start -t 1 -f " + quoted(prompt) +
                                     csv_flag_ + " & pid=$!; until grep -qs ^row, " + quoted(csv_) +
                                     " || ! kill -0 $pid; do sleep 0.01; done; kill -TERM $pid; wait $pid");
    EXPECT_EQ(run.status, 143) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, AllOf(HasSubstr("\ngeneration: 0 tokens"), Not(HasSubstr("error:"))));
    expect_documented(run.err, "stderr");
    expect_only_a_summary();
}

TEST_F(Telemetry, AnErrorBeforeThePromptLeavesTheSummary) {
    const std::string refusing = scratch_.file("refusing.gguf");
    bmoe::test::copy_with_chat_template(kDemo, refusing, "{{ raise_exception('never') }}");
    const std::string runs[] = {streamed(kDemo, "--cache-mb 2 --chat" + csv_flag_ + traces_),
                                streamed(kDemo, "--cache-mb 2 --chat --no-think" + csv_flag_),
                                streamed(refusing, "--cache-mb 2 --chat" + csv_flag_),
                                streamed(kDemo, "--cache-mb 2 -p '" + std::string(5000, 'x') + "'" + csv_flag_)};
    for (const std::string &command : runs) {
        const Finished run = run_command(command);
        EXPECT_EQ(run.status, 1) << command;
        EXPECT_EQ(run.out, "");
        EXPECT_THAT(run.err, HasSubstr("error: "));
        expect_only_a_summary();
        std::filesystem::remove(csv_);
    }
    expect_documented(read_file(routes_), "route-trace");
    expect_documented(read_file(reads_), "io-trace");
}

TEST_F(Telemetry, TracesNeedStreamedExperts) {
    EXPECT_EQ(run_command(cli(kDemo, "--moe-stream off" + traces_)).status, 2);
    const Finished fits = run_command(cli(kDemo, "--moe-stream auto" + traces_));
    EXPECT_EQ(fits.status, 1);
    EXPECT_THAT(fits.err, HasSubstr("add --moe-stream on"));
    for (const std::string &flags : {csv_flag_, traces_, std::string(" --progress")}) {
        const Finished refused = run_command(quoted(BMOE_CLI) + " --list-models " + quoted(kTiny) + flags);
        EXPECT_EQ(refused.status, 2) << refused.err;
        EXPECT_THAT(refused.err, HasSubstr("has no meaning with --list-models"));
    }
    EXPECT_EQ(run_command(streamed(kDemo, "--route-logits 3")).status, 2);
    EXPECT_THAT(run_command(streamed(kDemo, "--csv x --io-trace x")).err, HasSubstr("the same file"));
    const Finished dense = run_command(streamed(kTiny + "/qwen3.gguf", traces_));
    EXPECT_EQ(dense.status, 1);
    EXPECT_THAT(dense.err, HasSubstr("leave --route-trace out"));
}

}  // namespace
}  // namespace bmoe::apps::test
