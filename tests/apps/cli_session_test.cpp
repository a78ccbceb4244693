// bmoe-cli --session as a client drives it: a real model, real pipes, real faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/apps/run_command.h"
#include "tests/apps/session_process.h"
#include "tests/support/chat_model.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kDemo = BMOE_DEMO_MODEL;
const std::string kPrompt = "And the king said unto";

std::string session(const std::string &flags = "", const std::string &model = kDemo) {
    return quoted(BMOE_CLI) + " --session -m " + quoted(model) +
           " --moe-stream --cache-mb 2 --no-warm-start -t 1 -c 1024 --ubatch 64 -n 16 " + flags;
}

// With faults in reads of the model, after those that open it. Reads that the kernel performs for an io_uring would not be
// reached.
std::string faulty_session(const std::string &faults) {
    return "env LD_PRELOAD=" + quoted(BMOE_FAULT_SHIM) + " BMOE_FAULT_PATH=demo-moe " + faults + " " +
           session("--io-engine lanes");
}

// So slow that a test is never too late: a prompt takes seconds.
std::string slow_session() { return faulty_session("BMOE_FAULT_KIND=slow BMOE_FAULT_DELAY_MS=5 BMOE_FAULT_AFTER=200"); }

json generate(const std::string &id, const std::string &prompt, int max_tokens = 16) {
    return {{"op", "generate"}, {"id", id}, {"prompt", prompt}, {"max_tokens", max_tokens}};
}

// Many times an ubatch.
std::string long_prompt() {
    std::string text;
    for (int i = 0; i < 100; ++i) {
        text += "And the king said unto him, ";
    }
    return text;
}

TEST(CliSession, AnswersMessagesAsAChatDoes) {
    const bmoe::test::Scratch scratch;
    const json messages = {{{"role", "user"}, {"content", kPrompt}}};
    for (const bool reasons : {false, true}) {
        const std::string model = scratch.file(reasons ? "reasoning.gguf" : "plain.gguf");
        bmoe::test::copy_with_chat_template(kDemo, model,
                                            reasons ? bmoe::test::kReasoningTemplate : bmoe::test::kPlainTemplate);
        SessionProcess run(session("", model));
        run.next("BMOE_READY");
        run.send({{"op", "generate"}, {"id", "a"}, {"messages", messages}, {"max_tokens", 12}});
        std::string reasoning;
        std::string text;
        OutputLine line = run.next();
        for (; line.word == "BMOE_PROGRESS"; line = run.next()) {
            const std::string phase = line.body["phase"];
            if (phase != "prompt") {
                (phase == "text" ? text : reasoning) += line.body["delta"].get<std::string>();
            }
        }
        ASSERT_EQ(line.word, "BMOE_DONE") << line.body;
        const Finished chat = run_command(quoted(BMOE_CLI) + " -m " + quoted(model) +
                                          " --moe-stream --cache-mb 2 --no-warm-start -t 1 -c 1024 --ubatch 64 -n 12 "
                                          "--chat -p " +
                                          quoted(kPrompt));
        EXPECT_EQ(text + "\n", chat.out) << chat.err;
        EXPECT_EQ(reasoning.empty(), !reasons);
        EXPECT_THAT(chat.err, HasSubstr(reasoning));
        EXPECT_THAT(chat.err, HasSubstr("prompt " + line.body["prompt"]["tokens"].dump() + " tokens"));
    }
}

TEST(CliSession, NoThinkIsForAllRequestsOfASession) {
    const bmoe::test::Scratch scratch;
    const std::string err = scratch.file("stderr");
    const json messages = {{{"role", "user"}, {"content", kPrompt}}};
    const struct {
        const std::string *source;  // of the template
        const char *note;
    } cases[] = {{&bmoe::test::kReasoningTemplate, nullptr},
                 {&bmoe::test::kPlainTemplate, "--no-think has no effect: the model's chat template has no way"},
                 {nullptr, "--no-think has no effect: the model has no chat template"}};
    for (const auto &of : cases) {
        std::string model = kDemo;
        if (of.source != nullptr) {
            model = scratch.file("chat.gguf");
            bmoe::test::copy_with_chat_template(kDemo, model, *of.source);
        }
        SessionProcess run(session("--no-think 2>" + quoted(err), model));
        const json notes = run.next("BMOE_READY").body["notes"];
        for (int i = 0; i < 2; ++i) {
            of.source != nullptr
                ? run.send({{"op", "generate"}, {"id", "a"}, {"messages", messages}, {"max_tokens", 6}})
                : run.send(generate("a", kPrompt, 6));
            std::string text;
            OutputLine line = run.next();
            for (; line.word == "BMOE_PROGRESS"; line = run.next()) {
                EXPECT_NE(line.body["phase"], "reasoning");
                text += line.body["phase"] == "text" ? line.body["delta"].get<std::string>() : "";
            }
            EXPECT_EQ(line.word, "BMOE_DONE") << line.body;
            EXPECT_FALSE(text.empty());
        }
        run.close_input();
        EXPECT_EQ(run.wait(), 0);
        const std::string said = run_command("cat " + quoted(err)).out;
        const size_t at = said.find("--no-think");
        EXPECT_EQ(at == std::string::npos, of.note == nullptr) << said;
        EXPECT_EQ(said.find("--no-think", at + 1), std::string::npos) << "once: " << said;
        if (of.note != nullptr) {
            EXPECT_THAT(said, HasSubstr(of.note));
            EXPECT_THAT(notes.dump(), HasSubstr("--no-think"));
        }
    }
}

// The model writes no name of a recipient, with which answers of this format begin.
TEST(CliSession, AnAnswerThatBreaksItsFormatIsThereWithANote) {
    std::ifstream in(std::string(BMOE_TEMPLATES) + "/meetkai-functionary-medium-v3.2.jinja");
    std::ostringstream source;
    source << in.rdbuf();
    if (source.str().empty()) GTEST_SKIP();
    const bmoe::test::Scratch scratch;
    const std::string model = scratch.file("chat.gguf");
    const std::string err = scratch.file("stderr");
    bmoe::test::copy_with_chat_template(kDemo, model, source.str());
    const auto notes_in = [](const std::string &said) {
        const size_t at = said.find("note: the answer breaks the model's chat format");
        return at == std::string::npos ? 0 : said.find("note: the answer breaks", at + 1) == std::string::npos ? 1 : 2;
    };

    SessionProcess run(session("2>" + quoted(err), model));
    const json messages = {{{"role", "user"}, {"content", kPrompt}}};
    run.send({{"op", "generate"}, {"id", "a"}, {"messages", messages}, {"max_tokens", 12}});
    std::string text;
    EXPECT_EQ(run.answer(&text).word, "BMOE_DONE");
    run.close_input();
    EXPECT_EQ(run.wait(), 0);
    EXPECT_EQ(notes_in(run_command("cat " + quoted(err)).out), 1);

    const Finished chat = run_command(
        quoted(BMOE_CLI) + " -m " + quoted(model) +
        " --moe-stream --cache-mb 2 --no-warm-start -t 1 -c 1024 --ubatch 64 -n 12 --chat -p " + quoted(kPrompt));
    EXPECT_GT(text.size(), 0U);
    EXPECT_EQ(chat.out, text + "\n");
    EXPECT_EQ(notes_in(chat.err), 1) << chat.err;
}

TEST(CliSession, LoadsAndSaysWhatItRuns) {
    SessionProcess run(session());
    double progress = 0;
    OutputLine line = run.next();
    for (; line.word == "BMOE_LOAD"; line = run.next()) {
        EXPECT_GE(line.body["progress"], progress);
        progress = line.body["progress"];
    }
    EXPECT_EQ(progress, 1);
    ASSERT_EQ(line.word, "BMOE_READY");
    EXPECT_EQ(line.body["protocol"], 1);
    EXPECT_EQ(line.body["model"], kDemo);
    EXPECT_EQ(line.body["streaming"], true);
    EXPECT_EQ(line.body["n_ctx"], 1024);
    EXPECT_EQ(line.body["cache_mb"], 2);
    EXPECT_EQ(line.body["chat_template"], false);
    run.send({{"op", "close"}, {"id", "c"}});
    line = run.next();
    EXPECT_EQ(line.word, "BMOE_DONE");
    EXPECT_EQ(line.body, (json{{"op", "close"}, {"id", "c"}}));
    EXPECT_EQ(run.next().word, "");
    EXPECT_EQ(run.wait(), 0);
}

TEST(CliSession, GivesTheTextOfTheCommandAndReusesWhatItHolds) {
    const Finished once =
        run_command(quoted(BMOE_CLI) + " -m " + quoted(kDemo) +
                    " --moe-stream --cache-mb 2 --no-warm-start -t 1 -c 1024 --ubatch 64 -n 16 -p " + quoted(kPrompt));
    SessionProcess run(session());
    run.send(generate("a", kPrompt));
    std::string text;
    const OutputLine first = run.answer(&text);
    ASSERT_EQ(first.word, "BMOE_DONE") << first.body;
    EXPECT_EQ(kPrompt + text + "\n", once.out);
    EXPECT_EQ(first.body["id"], "a");
    EXPECT_EQ(first.body["reason"], "length");
    EXPECT_EQ(first.body["generated"]["tokens"], 16);
    EXPECT_EQ(first.body["prompt"]["reused"], 0);
    EXPECT_EQ(first.body["prompt"]["decoded"], first.body["prompt"]["tokens"]);
    EXPECT_TRUE(first.body["experts"]["hit_rate"].is_number());
    EXPECT_TRUE(first.body["bound"].is_object());

    run.send(generate("b", kPrompt + text + " And"));
    const OutputLine second = run.answer();
    ASSERT_EQ(second.word, "BMOE_DONE") << second.body;
    EXPECT_GE(second.body["prompt"]["reused"], first.body["prompt"]["tokens"]);
    EXPECT_EQ(second.body["prompt"]["reused"].get<int>() + second.body["prompt"]["decoded"].get<int>(),
              second.body["prompt"]["tokens"]);

    run.send({{"op", "reset"}, {"id", "r"}});
    EXPECT_EQ(run.answer().body, (json{{"op", "reset"}, {"id", "r"}}));
    run.send(generate("c", kPrompt));
    std::string again;
    EXPECT_EQ(run.answer(&again).body["prompt"]["reused"], 0);
    EXPECT_EQ(again, text);
}

TEST(CliSession, TakesItsSettingsFromTheRequest) {
    SessionProcess run(session("--temp 0"));
    json request = generate("a", kPrompt, 3);
    run.send(request);
    std::string text;
    EXPECT_EQ(run.answer(&text).body["generated"]["tokens"], 3);
    ASSERT_GT(text.size(), 4u);

    request["stop"] = {text.substr(2, 3)};
    run.send(request);
    std::string cut;
    const OutputLine done = run.answer(&cut);
    EXPECT_EQ(done.body["reason"], "stop");
    EXPECT_EQ(done.body["stop"], text.substr(2, 3));
    EXPECT_EQ(cut, text.substr(0, 2));

    request.erase("stop");
    request["max_tokens"] = 16;
    request["temperature"] = 5;
    request["top_k"] = 0;
    request["top_p"] = 1;
    request["min_p"] = 0;
    request["seed"] = 7;
    std::string hot[2];
    for (std::string &one : hot) {
        run.send(request);
        run.answer(&one);
    }
    EXPECT_EQ(hot[0], hot[1]);
    EXPECT_THAT(hot[0], testing::Not(StartsWith(text)));
}

TEST(CliSession, ShowsHowFarThePromptIs) {
    SessionProcess run(session());
    run.send(generate("a", long_prompt(), 1));
    run.next("BMOE_READY");
    std::vector<int> done;
    OutputLine line = run.next();
    for (; line.word == "BMOE_PROGRESS" && line.body["phase"] == "prompt"; line = run.next()) {
        EXPECT_EQ(line.body["id"], "a");
        done.push_back(line.body["done"]);
        if (line.body["done"] == line.body["total"]) {
            EXPECT_EQ(line.body["eta_s"], 0);
        }
    }
    const int total = run.answer().body["prompt"]["tokens"];
    ASSERT_GT(total, 3 * 64);
    std::vector<int> expected;
    for (int at = 0; at < total; at += 64) {
        expected.push_back(at);
    }
    expected.push_back(total);
    EXPECT_EQ(done, expected);
}

TEST(CliSession, IsCancelledInThePromptAndWhileItAnswers) {
    SessionProcess run(slow_session());
    run.send(generate("a", long_prompt()));
    // Only the first ubatch is done when the cancel is sent.
    while (run.next("BMOE_PROGRESS").body["done"] != 64) {
    }
    run.send({{"op", "cancel"}, {"id", "other"}});
    OutputLine line = run.next("BMOE_ERROR");
    EXPECT_EQ(line.body["code"], "not_running");
    run.send({{"op", "cancel"}, {"id", "a"}});
    line = run.answer();
    EXPECT_EQ(line.word, "BMOE_DONE");
    EXPECT_EQ(line.body["reason"], "cancelled");
    EXPECT_LT(line.body["prompt"]["decoded"], line.body["prompt"]["tokens"]);
    EXPECT_EQ(line.body["generated"]["tokens"], 0);
    EXPECT_GE(line.body["context"]["tokens"], 64);

    // What was decoded by then is still there.
    run.send(generate("a", kPrompt, 400));
    while (run.next("BMOE_PROGRESS").body["phase"] != "text") {
    }
    run.send({{"op", "cancel"}});
    line = run.answer();
    EXPECT_EQ(line.body["reason"], "cancelled");
    EXPECT_EQ(line.body["prompt"]["decoded"], 1);
    EXPECT_GT(line.body["generated"]["tokens"], 0);
    EXPECT_LT(line.body["generated"]["tokens"], 400);

    run.send({{"op", "cancel"}, {"id", "a"}});
    EXPECT_EQ(run.answer().body["code"], "not_running");
    run.send(generate("b", kPrompt, 2));
    EXPECT_EQ(run.answer().body["reason"], "length");
}

// So long that it takes about a second to cut into tokens, which the context could not hold.
std::string huge_prompt() {
    const std::string piece = long_prompt();
    std::string text;
    while (text.size() < (4U << 20)) {
        text += piece;
    }
    return text;
}

// Of a request that a cancel, or the end of the session, finds while its prompt is cut into tokens.
void expect_cancelled_uncounted(const OutputLine &line) {
    ASSERT_EQ(line.word, "BMOE_DONE") << line.body;
    EXPECT_EQ(line.body["reason"], "cancelled");
    EXPECT_EQ(line.body["stop"], nullptr);
    EXPECT_EQ(line.body["prompt"]["tokens"], nullptr);
    EXPECT_EQ(line.body["prompt"]["decoded"], 0);
    EXPECT_EQ(line.body["generated"]["tokens"], 0);
    EXPECT_EQ(line.body["context"]["tokens"], 0);
}

TEST(CliSession, IsCancelledWhileItsPromptIsCutIntoTokens) {
    const std::string huge = generate("a", huge_prompt()).dump();
    SessionProcess run(session());
    run.next("BMOE_READY");
    for (int i = 0; i < 2; ++i) {
        run.send_line(huge + "\n" + R"({"op":"cancel","id":"a"})");
        expect_cancelled_uncounted(run.next());
    }
    run.send(generate("b", kPrompt, 3));
    const OutputLine line = run.answer();
    EXPECT_EQ(line.body["reason"], "length") << line.body;
    EXPECT_EQ(line.body["id"], "b");
}

TEST(CliSession, EndsWhileAPromptIsCutIntoTokens) {
    const std::string huge = generate("a", huge_prompt()).dump();
    for (const bool by_close : {true, false}) {
        SessionProcess run(session());
        run.next("BMOE_READY");
        run.send_line(huge);
        if (by_close) {
            run.send({{"op", "close"}, {"id", "c"}});
        } else {
            run.close_input();
        }
        expect_cancelled_uncounted(run.next());
        if (by_close) {
            EXPECT_EQ(run.next().body, (json{{"op", "close"}, {"id", "c"}}));
        }
        EXPECT_EQ(run.next().word, "");
        EXPECT_EQ(run.wait(), 0);
    }
}

TEST(CliSession, IsCancelledBeforeItBegins) {
    SessionProcess run(slow_session());
    run.send_line(generate("a", long_prompt()).dump() + "\n" + R"({"op":"cancel","id":"a"})");
    const OutputLine line = run.answer();
    EXPECT_EQ(line.body["reason"], "cancelled") << line.body;
    const json tokens = line.body["prompt"]["tokens"];
    EXPECT_TRUE(tokens.is_null() || line.body["prompt"]["decoded"] < tokens) << line.body;
}

TEST(CliSession, RefusesAndGoesOn) {
    SessionProcess run(slow_session());
    const auto refused = [&](const std::string &line) {
        run.send_line(line);
        const OutputLine answer = run.answer();
        EXPECT_EQ(answer.word, "BMOE_ERROR") << line;
        EXPECT_EQ(answer.body["fatal"], false) << line;
        return answer.body;
    };
    EXPECT_EQ(refused("nonsense")["code"], "bad_request");
    EXPECT_EQ(refused("\xff\xfe")["id"], nullptr);
    const json unknown = refused(R"({"op":"generate","id":"x","prompt":"y","colour":1})");
    EXPECT_EQ(unknown["id"], "x");
    EXPECT_THAT(unknown["message"].get<std::string>(), HasSubstr("colour"));

    std::string too_long;
    for (int i = 0; i < 12; ++i) {
        too_long += long_prompt();
    }
    const json large = refused(generate("l", too_long).dump());
    EXPECT_EQ(large["code"], "failed");
    EXPECT_THAT(large["message"].get<std::string>(), HasSubstr("the context holds 1024"));
    const json chat = refused(R"({"op":"generate","id":"m","messages":[{"role":"user","content":"x"}]})");
    EXPECT_THAT(chat["message"].get<std::string>(), HasSubstr("chat template"));

    run.send(generate("a", long_prompt()));
    run.next("BMOE_PROGRESS");
    const json busy = refused(generate("b", kPrompt).dump());
    EXPECT_EQ(busy["code"], "busy");
    EXPECT_EQ(busy["id"], "b");
    EXPECT_EQ(refused(R"({"op":"reset"})")["code"], "busy");
    run.send({{"op", "cancel"}, {"id", "a"}});
    EXPECT_EQ(run.answer().body["reason"], "cancelled");

    run.send_line("");  // blank lines are nothing
    run.send_line(generate("c", kPrompt, 2).dump() + "\r");
    EXPECT_EQ(run.answer().body["reason"], "length");
}

TEST(CliSession, StopsAtTheEndOfTheContext) {
    SessionProcess run(session("-c 256"));
    run.send(generate("a", kPrompt, 2000));
    const OutputLine line = run.answer();
    EXPECT_THAT(line.body["reason"].get<std::string>(), testing::AnyOf("context", "stop"));
    EXPECT_LE(line.body["context"]["tokens"], 256);
}

TEST(CliSession, GoesOnAfterAnExpertThatCannotBeRead) {
    SessionProcess run(faulty_session("BMOE_FAULT_KIND=eio BMOE_FAULT_AFTER=600 BMOE_FAULT_COUNT=40"));
    std::string error;
    for (int i = 0; i < 20 && error.empty(); ++i) {
        run.send(generate("a" + std::to_string(i), long_prompt()));
        const OutputLine line = run.answer();
        if (line.word == "BMOE_ERROR") {
            EXPECT_EQ(line.body["code"], "failed");
            EXPECT_EQ(line.body["fatal"], false);
            error = line.body["message"];
        }
        run.send({{"op", "reset"}});
        run.answer();
    }
    EXPECT_THAT(error, HasSubstr("cannot read expert"));
    std::string reason;
    for (int i = 0; i < 40 && reason.empty(); ++i) {
        run.send(generate("b", kPrompt));
        const OutputLine line = run.answer();
        reason = line.word == "BMOE_DONE" ? line.body["reason"] : "";
    }
    EXPECT_EQ(reason, "length");
}

TEST(CliSession, EndsWithItsInput) {
    SessionProcess run(slow_session());
    run.send(generate("a", long_prompt()));
    run.next("BMOE_PROGRESS");
    run.close_input();
    EXPECT_EQ(run.answer().body["reason"], "cancelled");
    EXPECT_EQ(run.next().word, "");
    EXPECT_EQ(run.wait(), 0);
}

TEST(CliSession, EndsOnASignalBusyOrNot) {
    for (const bool busy : {false, true}) {
        SessionProcess run(slow_session());
        run.next("BMOE_READY");
        if (busy) {
            run.send(generate("a", long_prompt()));
            run.next("BMOE_PROGRESS");
        }
        run.signal(SIGTERM);
        if (busy) {
            EXPECT_EQ(run.answer().body["reason"], "cancelled");
        }
        EXPECT_EQ(run.next().word, "");
        EXPECT_EQ(run.wait(), 128 + SIGTERM);
    }
}

TEST(CliSession, EndsWhenNobodyReads) {
    SessionProcess run(slow_session());
    run.next("BMOE_READY");
    run.send(generate("a", long_prompt()));
    run.close_output();
    EXPECT_EQ(run.wait(), 128 + SIGPIPE);
}

TEST(CliSession, SaysWhyAModelCannotBeOpened) {
    SessionProcess run(quoted(BMOE_CLI) + " --session -m /nowhere/model.gguf --moe-stream");
    const OutputLine line = run.next();
    EXPECT_EQ(line.word, "BMOE_ERROR");
    EXPECT_EQ(line.body["code"], "open");
    EXPECT_EQ(line.body["fatal"], true);
    EXPECT_THAT(line.body["message"].get<std::string>(), HasSubstr("/nowhere/model.gguf"));
    EXPECT_EQ(run.next().word, "");
    EXPECT_EQ(run.wait(), 1);
}

TEST(CliSession, RefusesFlagsThatRequestsReplace) {
    const Finished prompt = run_command(session("-p x"));
    EXPECT_EQ(prompt.status, 2);
    EXPECT_THAT(prompt.err, AllOf(HasSubstr("--prompt"), HasSubstr("--session")));
    EXPECT_EQ(run_command(session("--chat")).status, 2);
    EXPECT_EQ(run_command(quoted(BMOE_CLI) + " -m x").status, 2);
}

TEST(CliSession, TheClientTalksToIt) {
    const Finished run = run_command("printf '%s\\n' 'And the king said unto' ' And it came to pass' | python3 " +
                                     quoted(BMOE_SESSION_CLIENT) + " -- " + session());
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("ready: streaming"), HasSubstr("length: 16 tokens"), HasSubstr("reused")));
    EXPECT_FALSE(run.out.empty());
}

}  // namespace
}  // namespace bmoe::apps::test
