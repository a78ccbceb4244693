// Lossy routing from the command line: all that a run says or records is marked, and what was given up is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/recorded_run.h"
#include "tests/apps/session_process.h"

namespace bmoe::apps::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kDemo = BMOE_DEMO_MODEL;
const std::string kStream = "--moe-stream on --cache-mb 2 ";
constexpr const char *kTenInAHundred = "the output is lossy: up to 10 % of the router's weight is forgone";

std::string cli(const std::string &flags) {
    return quoted(BMOE_CLI) + " -m " + quoted(kDemo) + " --no-warm-start -t 2 -c 512 -n 24 " + flags;
}

std::string prompted(const std::string &flags) { return cli("-p 'And the king said unto' " + flags); }

using CliLossy = RecordedRun;

TEST_F(CliLossy, EveryFlagMarksTheRunAndItsRecords) {
    struct Case {
        std::string flags;
        std::string mark;
    };
    const Case cases[] = {
        {kStream + "--quality-budget 10", "up to 10 % of the router's weight is forgone"},
        {kStream + "--substitute-cold 0.5", "experts not in memory are replaced from 0.5 of their score"},
        {kStream + "--drop-cold-experts 0.75 --drop-renorm", "those below 0.75 of the mean weight are dropped"},
        {kStream + "--n-expert-used 2", "a token uses 2 experts of a layer; the model was made for"},
        {"--moe-stream off --n-expert-used 2", "a token uses 2 experts of a layer; the model was made for"},
    };
    for (const Case &lossy : cases) {
        const Finished run = run_command(prompted(lossy.flags + " --progress" + csv_flag_));
        ASSERT_EQ(run.status, 0) << run.err;
        expect_documented(run.err, "stderr");
        EXPECT_THAT(run.err, AllOf(HasSubstr("note: the output is lossy: " + lossy.mark),
                                   HasSubstr("\nlossy: " + lossy.mark), HasSubstr(" lossy=1\n")));
        EXPECT_THAT(run.err, Not(HasSubstr(" lossy=0\n")));
        EXPECT_THAT(Table(read_file(csv_)).preamble["lossy"], HasSubstr(lossy.mark));
    }
}

TEST_F(CliLossy, NeutralValuesMarkNothing) {
    const Finished exact = run_command(prompted(kStream + "--progress" + csv_flag_));
    ASSERT_EQ(exact.status, 0) << exact.err;
    const std::string own = Table(read_file(csv_)).preamble["n_expert_used_of_model"];
    for (const std::string &neutral : {std::string("--quality-budget 0"), std::string("--substitute-cold 0"),
                                       std::string("--drop-cold-experts 0"), "--n-expert-used " + own}) {
        const Finished run = run_command(prompted(kStream + neutral + " --progress" + csv_flag_));
        EXPECT_EQ(run.out, exact.out);
        EXPECT_THAT(run.err,
                    AllOf(Not(HasSubstr("the output is lossy")), Not(HasSubstr("\nlossy:")), HasSubstr(" lossy=0\n")))
            << neutral;
        EXPECT_EQ(Table(read_file(csv_)).preamble["lossy"], "none");
    }
}

TEST_F(CliLossy, ExpertsOfATokenAreInEveryCsv) {
    for (const char *mode : {"on --cache-mb 2", "off"}) {
        const Finished run = run_command(prompted(std::string("--n-expert-used 2 --moe-stream ") + mode + csv_flag_));
        ASSERT_EQ(run.status, 0) << run.err;
        auto preamble = Table(read_file(csv_)).preamble;
        EXPECT_EQ(preamble["n_expert_used"], "2");
        EXPECT_GT(std::stoi(preamble["n_expert_used_of_model"]), 2);
        EXPECT_GT(std::stoi(preamble["n_expert"]), std::stoi(preamble["n_expert_used_of_model"]));
    }
}

TEST_F(CliLossy, WhatAPromptDropsIsALineOfItsOwn) {
    // A prompt of one token leaves its experts to choose from.
    const std::string flags = kStream + "--drop-cold-experts 1 --drop-in-prefill";
    const Finished run = run_command(cli("-p And --ubatch 1 " + flags + csv_flag_));
    ASSERT_EQ(run.status, 0) << run.err;
    expect_documented(run.err, "stderr");
    EXPECT_THAT(run.err, ContainsRegex("\nmoe-drop-prompt: dropped [1-9][0-9]* of [1-9][0-9]* routed"));
    const auto prompt = Table(read_file(csv_)).of_kind("prompt");
    ASSERT_EQ(prompt.size(), 1U);
    EXPECT_THAT(run.err, HasSubstr("\nmoe-drop-prompt: dropped " + prompt.front().at("dropped") + " of "));
    EXPECT_THAT(run_command(prompted(kStream + "--drop-cold-experts 1")).err, Not(HasSubstr("moe-drop-prompt")));
}

TEST_F(CliLossy, WithoutACacheOrStreamingALineSaysWhatIsLeftOfIt) {
    for (const char *flag : {"--quality-budget 10", "--substitute-cold 0.5", "--drop-cold-experts 0.75"}) {
        const Finished run = run_command(prompted(std::string("--moe-stream on --cache-mb 0 ") + flag));
        EXPECT_EQ(run.status, 0) << run.err;
        EXPECT_THAT(run.err, AllOf(HasSubstr("note: there is no expert cache"), HasSubstr("none is replaced")));
        EXPECT_THAT(run.err, Not(ContainsRegex("moe-substitute: substituted [1-9]")));
        const Finished resident = run_command(prompted(std::string("--moe-stream off ") + flag));
        EXPECT_EQ(resident.status, 0) << resident.err;
        EXPECT_THAT(resident.err, AllOf(HasSubstr("nothing is streamed"), Not(HasSubstr("\nlossy:"))));
    }
}

TEST_F(CliLossy, PerplexityIsMarkedToo) {
    const std::string text = scratch_.file("text");
    run_command("printf 'And the king said unto him, and the king said' > " + quoted(text));
    const Finished run = run_command(quoted(BMOE_CLI) + " perplexity -m " + quoted(kDemo) + " -f " + quoted(text) +
                                     " -t 2 -c 512 --no-warm-start " + kStream + "--quality-budget 10");
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr(kTenInAHundred), HasSubstr("\nlossy: up to 10 %")));
}

TEST(CliLossySession, AnswersAreMarkedAndCounted) {
    const json request = {{"op", "generate"}, {"id", "a"}, {"prompt", "And the king said unto"}, {"max_tokens", 16}};
    for (const bool lossy : {false, true}) {
        SessionProcess run(quoted(BMOE_CLI) + " --session -m " + quoted(kDemo) + " --no-warm-start -t 2 -c 512 " +
                           kStream + (lossy ? "--quality-budget 10" : ""));
        const OutputLine ready = run.next("BMOE_READY");
        run.send(request);
        for (OutputLine line = run.next(); line.word != "BMOE_DONE"; line = run.next()) {
            ASSERT_EQ(line.word, "BMOE_PROGRESS") << line.body;
            EXPECT_EQ(line.body.value("lossy", false), lossy) << line.body;
        }
        run.send(request);
        const json done = run.answer().body;
        if (!lossy) {
            EXPECT_TRUE(ready.body["lossy"].is_null());
            EXPECT_TRUE(done["lossy"].is_null());
            continue;
        }
        EXPECT_THAT(ready.body["lossy"].get<std::string>(), HasSubstr("up to 10 %"));
        const json &figures = done["lossy"];
        EXPECT_EQ(figures["what"], ready.body["lossy"]);
        EXPECT_GT(figures["routed"], 0);
        EXPECT_GT(figures["dropped"].get<int>() + figures["substituted"].get<int>(), 0);
        EXPECT_GT(figures["mass"], 0);
        EXPECT_LE(figures["mass"], 0.1001);
        EXPECT_EQ(figures["prompt"]["dropped"], 0);
        EXPECT_TRUE(figures["prompt"]["mass"].is_null());
    }
}

}  // namespace
}  // namespace bmoe::apps::test
