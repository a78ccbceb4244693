// docs/telemetry.md against sessions and conversations, whose requests are turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/apps/recorded_run.h"
#include "tests/apps/session_process.h"
#include "tests/apps/terminal.h"
#include "tests/support/chat_model.h"

namespace bmoe::apps::test {
namespace {

using testing::HasSubstr;

const std::string kDemo = BMOE_DEMO_MODEL;
const std::string kPrompt = "And the king said unto him, Go down to the house of the Lord, and say unto the people";

nlohmann::json generate(const std::string &prompt, int max_tokens) {
    return {{"op", "generate"}, {"id", "x"}, {"prompt", prompt}, {"max_tokens", max_tokens}};
}

class TelemetryOfTurns : public RecordedRun {
  protected:
    const std::string err_ = scratch_.file("stderr");

    // Everything that can be written down, in a run of several requests.
    std::string recorded(const std::string &flags) const {
        return quoted(BMOE_CLI) + " --moe-stream on --cache-mb 2 --no-warm-start -t 2 -c 1024 --ubatch 16 " + flags +
               " --progress --route-logits 6" + csv_flag_ + traces_ + " 2>" + quoted(err_);
    }
    std::string session() const { return recorded("--session -m " + quoted(kDemo)); }
    std::string chat(const std::string &flags) const {
        const std::string model = scratch_.file("chat.gguf");
        bmoe::test::copy_with_chat_template(kDemo, model, bmoe::test::kPlainTemplate);
        return "env XDG_STATE_HOME=" + quoted(scratch_.file("state")) + " " +
               recorded("-m " + quoted(model) + " " + flags);
    }

    // Rows of these turns, of whole tokens, and their sum, in all files.
    void expect_turns(const std::vector<size_t> &prompt_tokens) const;
};

void TelemetryOfTurns::expect_turns(const std::vector<size_t> &prompt_tokens) const {
    expect_documented(read_file(csv_), "csv");
    expect_documented(read_file(routes_), "route-trace");
    expect_documented(read_file(reads_), "io-trace");
    const Table csv(read_file(csv_));
    const auto prompts = csv.of_kind("prompt");
    ASSERT_EQ(prompts.size(), prompt_tokens.size());
    std::map<std::string, size_t> steps;  // by turn
    for (const auto &row : csv.of_kind("token")) {
        EXPECT_EQ(row.at("tokens"), std::to_string(++steps[row.at("turn")]));
    }
    std::map<std::string, size_t> traced[2];  // by phase, then turn
    for (const auto &row : Table(read_file(routes_)).rows) {
        if (row.at("layer") == "0" && row.at("slot") == "0") {
            EXPECT_EQ(row.at("step"), std::to_string(traced[std::stoul(row.at("phase"))][row.at("turn")]++));
        }
    }
    for (size_t turn = 0; turn < prompt_tokens.size(); ++turn) {
        const std::string name = std::to_string(turn);
        EXPECT_EQ(prompts[turn].at("turn"), name);
        EXPECT_EQ(prompts[turn].at("tokens"), std::to_string(prompt_tokens[turn]));
        EXPECT_EQ(traced[0][name], prompt_tokens[turn]) << turn;
        EXPECT_EQ(traced[1][name], steps[name]) << turn;
    }
    ASSERT_EQ(csv.of_kind("summary").size(), 1U);
    EXPECT_EQ(csv.rows.back().at("row"), "summary");
    EXPECT_EQ(csv.rows.back().at("tokens"), std::to_string(csv.of_kind("token").size()));
}

TEST_F(TelemetryOfTurns, EachRequestOfASessionIsATurn) {
    SessionProcess run(session());
    run.send(generate(kPrompt, 8));
    std::string text;
    const auto first = run.answer(&text).body;
    ASSERT_EQ(first["reason"], "length") << first;
    run.send(generate(std::string(10000, 'x'), 8));
    EXPECT_EQ(run.answer().body["code"], "failed") << "nothing is decoded of it, and it is no turn";
    run.send(generate(kPrompt + text + " And", 900));
    while (run.next("BMOE_PROGRESS").body["phase"] != "text") {
    }
    run.send({{"op", "cancel"}});
    const auto second = run.answer().body;
    EXPECT_EQ(second["reason"], "cancelled") << second;
    run.send(generate(kPrompt + " is good, and the men of", 4));
    const auto third = run.answer().body;
    EXPECT_GT(third["prompt"]["reused"], 0) << third;
    run.send({{"op", "close"}});
    EXPECT_EQ(run.answer().body["op"], "close");
    EXPECT_EQ(run.wait(), 0);

    expect_turns({first["prompt"]["decoded"], second["prompt"]["decoded"], third["prompt"]["decoded"]});
    const Table csv(read_file(csv_));
    EXPECT_EQ(csv.rows.back().at("turn"), "2");
    std::map<std::string, int> steps;
    for (const auto &row : csv.of_kind("token")) {
        ++steps[row.at("turn")];
    }
    EXPECT_EQ(steps["0"], 7);
    EXPECT_THAT(steps["1"],
                testing::AnyOf(second["generated"]["tokens"], second["generated"]["tokens"].get<int>() - 1));
    EXPECT_EQ(steps["2"], 3);
    const std::string err = read_file(err_);
    expect_documented(err, "stderr");
    const std::string decoded = third["prompt"]["decoded"].dump();
    EXPECT_THAT(err, HasSubstr("phase=prompt tokens=" + decoded + " of=" + decoded + " "));
    EXPECT_THAT(err, HasSubstr("phase=decode tokens=3 of=3 "));
}

TEST_F(TelemetryOfTurns, HoweverASessionEndsItsFilesAreComplete) {
    const std::map<std::string, int> statuses = {
        {"SIGHUP", 128 + SIGHUP}, {"SIGINT", 128 + SIGINT}, {"SIGTERM", 128 + SIGTERM}, {"input", 0}, {"output", 141}};
    for (const auto &[end, status] : statuses) {
        SessionProcess run(session());
        run.send(generate(kPrompt, 4));
        const auto first = run.answer().body;
        run.send(generate(kPrompt, 900));
        while (run.next("BMOE_PROGRESS").body["phase"] != "text") {
        }
        if (end == "input") {
            run.close_input();
        } else if (end == "output") {
            run.close_output();
        } else {
            run.signal(status - 128);
        }
        EXPECT_EQ(run.wait(), status) << end;
        SCOPED_TRACE(end);
        expect_turns({first["prompt"]["decoded"], 1});
        expect_documented(read_file(err_), "stderr");
    }
}

TEST_F(TelemetryOfTurns, ASessionSaysWhichFileItCouldNotWrite) {
    SessionProcess full(quoted(BMOE_CLI) + " --session --moe-stream on --cache-mb 2 --no-warm-start -m " +
                        quoted(kDemo) + " --csv /dev/full 2>" + quoted(err_));
    full.send(generate(kPrompt, 2));
    EXPECT_EQ(full.answer().word, "BMOE_DONE");
    full.close_input();
    EXPECT_EQ(full.wait(), 1);
    EXPECT_THAT(read_file(err_), HasSubstr("error: --csv /dev/full: cannot be written to"));

    const std::string nowhere = scratch_.file("nowhere/file");
    SessionProcess none(quoted(BMOE_CLI) + " --session -m " + quoted(kDemo) + " --csv " + quoted(nowhere));
    const OutputLine line = none.next();
    EXPECT_EQ(line.body["code"], "open");
    EXPECT_EQ(line.body["fatal"], true);
    EXPECT_THAT(line.body["message"].get<std::string>(), HasSubstr("--csv " + nowhere));
    EXPECT_EQ(none.wait(), 1);
}

// Of a conversation's standard error those lines that telemetry.md is about.
std::string figures_of(const std::string &err) {
    std::string figures;
    for (const std::string &line : lines_of(err)) {
        for (const char *name : {"progress:", "generation:", "compute:", "moe-", "bound:", "memory:"}) {
            figures += line.starts_with(name) ? line + "\n" : "";
        }
    }
    return figures;
}

std::vector<size_t> prompt_tokens_of(const Table &csv) {
    std::vector<size_t> tokens;
    for (const auto &row : csv.of_kind("prompt")) {
        tokens.push_back(std::stoul(row.at("tokens")));
    }
    return tokens;
}

TEST_F(TelemetryOfTurns, EachMessageOfAConversationIsATurn) {
    Terminal terminal(chat("-n 150"));
    for (const char *message : {"And the king said", "What said he?", "And then?"}) {
        terminal.read_until("> ");
        terminal.type(message + std::string("\r"));
        terminal.read_until(message + std::string("\r\n"));
        if (message == std::string("What said he?")) {
            terminal.await_bytes(40);
            terminal.type(kCtrlC);
        }
    }
    terminal.read_until("> ");
    terminal.type("/exit\r");
    EXPECT_EQ(terminal.wait(), 0);
    const Table csv(read_file(csv_));
    const auto prompts = prompt_tokens_of(csv);
    ASSERT_EQ(prompts.size(), 3U);
    expect_turns(prompts);
    EXPECT_EQ(csv.rows.back().at("turn"), "2");
    const auto steps = csv.of_kind("token").size();
    EXPECT_GT(steps, 2U);
    EXPECT_LT(steps, 3U * 149);
    const std::string err = read_file(err_);
    EXPECT_THAT(err, HasSubstr("(stopped"));
    const auto forms = expect_documented(figures_of(err), "stderr");
    EXPECT_GE(forms.size(), 7U);  // and moe-lookahead:
}

TEST_F(TelemetryOfTurns, AConversationSaysThatItsAnswersHaveNoLimit) {
    Terminal terminal(chat(""));
    terminal.read_until("> ");
    terminal.type("/exit\r");
    EXPECT_EQ(terminal.wait(), 0);
    EXPECT_EQ(Table(read_file(csv_)).preamble.at("max_tokens"), "context");
}

TEST_F(TelemetryOfTurns, HoweverAConversationEndsItsFilesAreComplete) {
    for (const int status : {128 + SIGTERM, 128 + SIGHUP, 128 + SIGINT}) {
        Terminal terminal(chat("-n 4"));
        terminal.read_until("> ");
        terminal.type("And the king said\r");
        terminal.read_until("And the king said\r\n");
        terminal.read_until("> ");
        if (status != 128 + SIGINT) {
            terminal.signal(status - 128);
        } else {
            terminal.type(kCtrlC);
            terminal.read_until("> ");
            terminal.type(kCtrlC);
        }
        EXPECT_EQ(terminal.wait(), status);
        const auto prompts = prompt_tokens_of(Table(read_file(csv_)));
        ASSERT_EQ(prompts.size(), 1U);
        expect_turns(prompts);
        expect_documented(figures_of(read_file(err_)), "stderr");
        EXPECT_THAT(read_file(err_), HasSubstr("\ngeneration: 4 tokens"));
    }
}

TEST_F(TelemetryOfTurns, ASessionAndAConversationInWhichNothingWorksLeaveTheSummary) {
    SessionProcess run(session());
    run.send(generate(std::string(10000, 'x'), 8));
    EXPECT_EQ(run.answer().body["code"], "failed");
    run.close_input();
    EXPECT_EQ(run.wait(), 0);
    expect_only_a_summary();

    Terminal terminal(recorded("-m " + quoted(kDemo)));
    EXPECT_EQ(terminal.wait(), 1);
    EXPECT_THAT(read_file(err_), HasSubstr("error: the model has no chat template"));
    expect_only_a_summary();
}

}  // namespace
}  // namespace bmoe::apps::test
