// bmoe-bench as a user runs it, on a tiny model.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/run_record.h"
#include "tests/apps/run_command.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

const std::string kModel = std::string(BMOE_TINY_MODELS) + "/qwen3moe.gguf";

class Bench : public testing::Test {
  protected:
    // The page cache is left alone: other tests run on this machine.
    Finished bench(const std::string &arguments, const std::string &model = kModel) {
        return run_command(quoted(BMOE_BENCH) + " " + arguments + " -m " + quoted(model) +
                           " --pairs 1 --tokens 4 --threads 2 --drop-cache none --out " + quoted(out_));
    }

    std::vector<nlohmann::json> results() const {
        std::vector<nlohmann::json> all;
        std::ifstream file(out_);
        for (std::string line; std::getline(file, line);) {
            all.push_back(nlohmann::json::parse(line));
        }
        return all;
    }

    bmoe::test::Scratch scratch_;
    const std::string out_ = scratch_.file("results.jsonl");
};

TEST_F(Bench, RunsTwoCellsAndRecordsEveryFigure) {
    const Finished run = bench("run --cells decode-6g-auto,resident-plain");
    EXPECT_EQ(run.status, 0) << run.out << run.err;
    EXPECT_NE(run.out.find("decode-6g-auto / resident-plain"), std::string::npos) << run.out;
    const auto lines = results();
    ASSERT_EQ(lines.size(), 2U);
    for (const nlohmann::json &line : lines) {
        ASSERT_EQ(line.at("ok"), true) << line.dump();
        for (const char *name : {"cell", "request", "entry", "memory_cgroup", "page_cache", "read_ahead_kib"}) {
            EXPECT_TRUE(line.contains(name)) << name;
        }
        const nlohmann::json &figures = line.at("figures");
        const bool streams = figures.at("mode") == "stream";
        for (const char *name : bench::figure_names()) {
            const bool of_experts = std::string(
                                        "prompt_read_bytes prompt_read_gib_per_second prompt_stall_seconds "
                                        "warmed_bytes cache_mib policy hit_rate read_bytes mib_per_token "
                                        "read_gib_per_second stall_seconds o_direct huge_pages")
                                        .find(name) != std::string::npos;
            const bool may_be_missing =
                std::string("route_replay read_gib_per_second first_tokens_seconds first_tokens_ratio").find(name) !=
                std::string::npos;
            EXPECT_TRUE(may_be_missing || figures.at(name).is_null() == (of_experts && !streams)) << name;
        }
        EXPECT_EQ(figures.at("prompt_tokens"), 64);
        EXPECT_EQ(figures.at("generated"), 4);
        EXPECT_EQ(figures.at("step_seconds").size(), 3U);
        EXPECT_TRUE(figures.at("first_tokens_seconds").is_null()) << "of 8 steps";
        EXPECT_TRUE(figures.at("first_tokens_ratio").is_null()) << "of 40 steps";
        EXPECT_GT(figures.at("decode_tokens_per_second"), 0.0);
        EXPECT_GT(figures.at("first_token_seconds"), figures.at("prompt_seconds"));
    }
    EXPECT_EQ(lines[0].at("figures").at("mode"), "stream");
    EXPECT_EQ(lines[1].at("figures").at("mode"), "resident");
}

TEST_F(Bench, ReplaysATraceWithAShareOfTheExpertsCached) {
    const std::string trace = scratch_.file("a.route.csv");
    std::ofstream(trace) << "# route_trace v1\n# model=m arch=x n_layer=2 n_expert=16 n_expert_used=2\n"
                            "# layer=0 expert_bytes=1000\n# layer=1 expert_bytes=1000\n"
                            "0,0,0,0,0,3,0.5\n0,0,0,0,1,2,0.5\n0,0,1,0,0,3,0.5\n0,0,1,0,1,2,0.5\n"
                            "0,0,1,1,0,3,0.5\n0,0,1,1,1,2,0.5\n"
                            "0,1,0,0,0,3,0.5\n0,1,0,0,1,1,0.5\n0,1,0,1,0,3,0.5\n0,1,0,1,1,1,0.5\n";
    const Finished run = bench("run --cells replay-25pct-lru --trace " + quoted(trace));
    EXPECT_EQ(run.status, 0) << run.out << run.err;
    ASSERT_EQ(results().size(), 1U);
    const nlohmann::json figures = results()[0].at("figures");
    EXPECT_NE(figures.at("route_replay").get<std::string>().find("1 tokens, routing is recorded"), std::string::npos);
    EXPECT_EQ(figures.at("policy"), "lru");
    EXPECT_EQ(figures.at("prompt_tokens"), 2);
    // One token over and over: after the first step everything is a hit.
    EXPECT_GT(figures.at("hit_rate"), 0.6);
}

TEST_F(Bench, StartsWarmFromAProfileOfOtherText) {
    const Finished run = bench("compare decode-6g-auto-warm decode-6g-auto", BMOE_DEMO_MODEL);
    EXPECT_EQ(run.status, 0) << run.out << run.err;
    const auto lines = results();
    ASSERT_EQ(lines.size(), 2U);
    const nlohmann::json &warm = lines[0];
    EXPECT_GT(warm.at("figures").at("warmed_bytes"), 0) << warm.dump();
    EXPECT_EQ(warm.at("figures").at("notes"), nlohmann::json::array()) << "the profile is used, and written at the end";
    EXPECT_EQ(warm.at("request").at("prompt_skip"), 0);
    EXPECT_EQ(warm.at("profile").at("request").at("prompt_skip"), 64);
    EXPECT_EQ(lines[1].at("figures").at("warmed_bytes"), 0);
}

TEST_F(Bench, HasNoProfileOfATextThatEndsWithThePrompt) {
    const std::string text = scratch_.file("short.txt");
    std::ofstream(text) << "In the beginning God created the heaven and the earth.\n";
    const Finished run = bench("compare decode-6g-auto-warm decode-6g-auto --prompt " + quoted(text), BMOE_DEMO_MODEL);
    EXPECT_EQ(run.status, 1) << run.out << run.err;
    const auto lines = results();
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_NE(lines[0].at("error").get<std::string>().find("is too short"), std::string::npos) << lines[0].dump();
    EXPECT_EQ(lines[1].at("ok"), true) << lines[1].dump();
    EXPECT_GT(lines[1].at("figures").at("prompt_repeats"), 1);
}

TEST_F(Bench, RecordsARunThatFails) {
    const Finished run = bench("compare decode-6g-4000 decode-6g-0 --prompt " + quoted(scratch_.file("missing")));
    EXPECT_EQ(run.status, 1) << run.out << run.err;
    ASSERT_EQ(results().size(), 2U);
    EXPECT_EQ(results()[0].at("ok"), false);
    EXPECT_NE(results()[0].at("error").get<std::string>().find("--prompt"), std::string::npos) << results()[0].dump();
    EXPECT_NE(run.out.find("FAILED: decode-6g-0, pair 1"), std::string::npos) << run.out;
}

TEST_F(Bench, KnowsTheSettingsOfAllKindsOfCells) {
    const Finished run = bench(
        "run --cells decode-whole-serial,decode-6g-0-lru,mmap-6g-radefault,resident,prefill-512,prefill-2048-ub512");
    EXPECT_EQ(run.status, 0) << run.out << run.err;
    EXPECT_EQ(results().size(), 6U);
}

TEST_F(Bench, RefusesAnUnknownCellAndAModelThatIsNotThere) {
    EXPECT_NE(bench("run --cells decode-7g-auto").err.find("decode-7g-auto"), std::string::npos);
    const Finished run = run_command(quoted(BMOE_BENCH) + " run -m missing.gguf --out " + quoted(out_));
    EXPECT_EQ(run.status, 1);
    EXPECT_NE(run.err.find("missing.gguf"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace bmoe::apps::test
