// A conversation as a person has it, in a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/apps/run_command.h"
#include "tests/apps/terminal.h"
#include "tests/support/chat_model.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kPrompt = "> ";
const std::string kDim = "\033[2m";

class Chat : public testing::Test {
  protected:
    std::string model(const std::string &source) const {
        std::string path = scratch_.folder("mit Leerzeichen") + "/größe.gguf";
        bmoe::test::copy_with_chat_template(BMOE_DEMO_MODEL, path, source);
        return path;
    }

    // A few tokens for each answer unless told otherwise.
    std::string chat(const std::string &model, const std::string &flags = "-n 6") const {
        return "env XDG_STATE_HOME=" + quoted(scratch_.file("state")) + " " + quoted(BMOE_CLI) + " -m " +
               quoted(model) + " --moe-stream --cache-mb 4 --no-warm-start -t 1 -c 512 " + flags;
    }

    std::string plain(const std::string &flags = "-n 6") const {
        return chat(model(bmoe::test::kPlainTemplate), flags);
    }

    static void ask(Terminal &terminal, const std::string &question) {
        terminal.read_until(kPrompt);
        terminal.type(question + "\r");
        terminal.read_until("the answer ends after 6 tokens");
    }

    // What /stats says about the conversation.
    static std::string stats(Terminal &terminal) {
        terminal.read_until(kPrompt);
        terminal.type("/stats\r");
        return terminal.read_until(" were read");
    }

    static int leave(Terminal &terminal) {
        terminal.read_until(kPrompt);
        terminal.type(kCtrlD);
        return terminal.wait();
    }

    nlohmann::json saved(const std::string &path) const {
        std::ifstream in(path);
        return nlohmann::json::parse(in);
    }

    bmoe::test::Scratch scratch_;
};

TEST_F(Chat, GoesOnFromWhatTheContextHolds) {
    Terminal terminal(plain());
    ask(terminal, "And the king said");
    ask(terminal, "What is größer?");
    const std::string lines = stats(terminal);
    EXPECT_THAT(lines, HasSubstr("conversation: 4 messages"));
    EXPECT_THAT(lines, AllOf(HasSubstr("generation: 6 tokens"), Not(HasSubstr("last prompt: 0 tokens"))));
    EXPECT_EQ(leave(terminal), 0);
    EXPECT_THAT(terminal.screen(), HasSubstr("größer"));
}

TEST_F(Chat, CtrlCStopsTheAnswerAndKeepsTheConversation) {
    Terminal terminal(plain("-c 16384"));
    terminal.read_until(kPrompt);
    terminal.type("And the king said\r");
    terminal.read_until("And the king said\r\n");
    terminal.await_bytes(40);
    terminal.type(kCtrlC);
    terminal.read_until("(stopped; Ctrl-C again ends the conversation)");
    EXPECT_THAT(stats(terminal), HasSubstr("conversation: 2 messages"));
    // At the prompt it drops what was typed, as often as one likes.
    for (int i = 0; i < 3; ++i) {
        terminal.read_until(kPrompt);
#ifdef BMOE_LIBEDIT
        terminal.type("nonsense");
        terminal.read_until("nonsense");
#else
        terminal.type("nonsense\\\r");
        terminal.read_until(". ");
#endif
        terminal.type(kCtrlC);
        terminal.read_until("(Ctrl-D or /exit ends the conversation)");
    }
    terminal.read_until(kPrompt);
    terminal.type("/exit\r");
    EXPECT_EQ(terminal.wait(), 0);
    EXPECT_THAT(terminal.screen(), HasSubstr("generation: "));
}

TEST_F(Chat, CtrlCAfterCtrlCEndsItWithTheSummary) {
    Terminal terminal(plain("-c 16384"));
    terminal.read_until(kPrompt);
    terminal.type("And the king said\r");
    terminal.read_until("And the king said\r\n");
    terminal.await_bytes(40);
    terminal.type(kCtrlC);
    terminal.read_until("(stopped; Ctrl-C again ends the conversation)");
    terminal.read_until(kPrompt);
    terminal.type(kCtrlC);
    terminal.read_until("generation: ");
    EXPECT_EQ(terminal.wait(), 128 + SIGINT);

    // What is said in between counts.
    Terminal idle(plain());
    idle.read_until(kPrompt);
    idle.type(kCtrlC);
    idle.read_until("(Ctrl-C again, Ctrl-D or /exit ends the conversation)");
    ask(idle, "And the king said");
    idle.read_until(kPrompt);
    idle.type(kCtrlC);
    idle.read_until("(Ctrl-C again, Ctrl-D or /exit ends the conversation)");
    idle.read_until(kPrompt);
    idle.type(kCtrlC);
    idle.read_until("generation: 6 tokens");
    EXPECT_EQ(idle.wait(), 128 + SIGINT);
}

TEST_F(Chat, CtrlCWhileAnAnswerIsStillStoppingEndsItWithTheSummary) {
    // An answer stops within a layer's work, which here waits for slow reads.
    const std::string slow = "env LD_PRELOAD=" + quoted(BMOE_FAULT_SHIM) +
                             " BMOE_FAULT_PATH=größe BMOE_FAULT_KIND=slow BMOE_FAULT_DELAY_MS=20 BMOE_FAULT_AFTER=200 ";
    Terminal terminal(slow + plain("--cache-mb 0 --io-engine lanes --ubatch 64 --progress"));
    terminal.read_until(kPrompt);
    std::string message;
    for (int i = 0; i < 40; ++i) {
        message += "And the king said unto him, " + std::to_string(i) + ". ";
    }
    terminal.type(message + "\r");
    terminal.read_until("progress: phase=prompt tokens=64 ");
    // So that the next ubatch has begun, and is still in its first layer.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    terminal.signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    terminal.signal(SIGINT);
    terminal.read_until("generation: 0 tokens");
    EXPECT_EQ(terminal.wait(), 128 + SIGINT);
}

TEST_F(Chat, CtrlCWhileAConversationIsCutIntoTokensLeavesItAsItWas) {
    std::string huge;
    while (huge.size() < (4U << 20)) {
        huge += "And the king said unto him, ";
    }
    const std::string file = scratch_.file("chat.json");
    std::ofstream(file) << nlohmann::json{
        {"format", "bmoe-chat"},
        {"version", 1},
        {"model", "größe.gguf"},
        {"messages", {{{"role", "user"}, {"content", huge}}, {{"role", "assistant"}, {"content", "So"}}}}};
    for (const bool goes_on : {true, false}) {
        Terminal terminal(plain());
        terminal.read_until(kPrompt);
        terminal.type("/load " + file + "\r");
        terminal.read_until("2 messages loaded");
        terminal.read_until(kPrompt);
        terminal.type("And then?\r");
        terminal.read_until("And then?\r\n");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        terminal.signal(SIGINT);
        terminal.read_until("(no answer: the message is not part of the conversation)");
        terminal.read_until("(stopped; Ctrl-C again ends the conversation)");
        terminal.read_until(kPrompt);
        if (goes_on) {
            terminal.type("/reset\r");
            terminal.read_until("a new conversation");
            ask(terminal, "And the king said");
            EXPECT_EQ(leave(terminal), 0);
        } else {
            terminal.type(kCtrlC);
            terminal.read_until("generation: 0 tokens");
            EXPECT_EQ(terminal.wait(), 128 + SIGINT);
        }
    }
}

TEST_F(Chat, ATerminationEndsItWithTheSummary) {
    for (const int signal : {SIGTERM, SIGHUP}) {
        Terminal terminal(plain());
        ask(terminal, "And the king said");
        terminal.read_until(kPrompt);
        terminal.signal(signal);
        terminal.read_until("generation: 6 tokens");
        EXPECT_EQ(terminal.wait(), 128 + signal);

        Terminal answering(plain("-c 16384"));
        answering.read_until(kPrompt);
        answering.type("And the king said\r");
        answering.read_until("And the king said\r\n");
        answering.await_bytes(40);
        answering.signal(signal);
        answering.read_until("generation: ");
        EXPECT_EQ(answering.wait(), 128 + signal);
    }
}

TEST_F(Chat, SavesAndLoads) {
    const std::string file = scratch_.file("a chat.json");
    const std::string again = scratch_.file("again.json");
    {
        Terminal terminal(plain());
        ask(terminal, "And the king said");
        ask(terminal, "And \"then\"?");
        terminal.read_until(kPrompt);
        terminal.type("/save " + file + "\r");
        terminal.read_until("4 messages saved in " + file);
        EXPECT_EQ(leave(terminal), 0);
    }
    const auto json = saved(file);
    EXPECT_EQ(json.at("format"), "bmoe-chat");
    EXPECT_EQ(json.at("version"), 1);
    EXPECT_EQ(json.at("model"), "größe.gguf");
    ASSERT_EQ(json.at("messages").size(), 4u);
    EXPECT_EQ(json["messages"][2]["content"], "And \"then\"?");
    EXPECT_EQ(json["messages"][3]["role"], "assistant");

    Terminal terminal(plain());
    terminal.read_until(kPrompt);
    terminal.type("/load " + file + "\r");
    terminal.read_until("4 messages loaded from " + file);
    terminal.read_until(kPrompt);
    terminal.type("/save " + again + "\r");
    terminal.read_until("4 messages saved");
    EXPECT_EQ(saved(again), json);
    ask(terminal, "More.");
    EXPECT_THAT(stats(terminal), HasSubstr("conversation: 6 messages"));
    EXPECT_EQ(leave(terminal), 0);
}

TEST_F(Chat, SaysWhatIsWrongWithAFileAndGoesOn) {
    const std::string file = scratch_.file("chat.json");
    const std::pair<const char *, const char *> wrong[] = {
        {"{", "is not JSON at byte"},
        {"[]", "is no saved conversation"},
        {R"({"format":"bmoe-chat","version":7})", "another version"},
        {R"({"format":"bmoe-chat","version":1,"model":"m","messages":[{"role":"cook","content":"x"}]})",
         "the role 'cook'"},
        {R"({"format":"bmoe-chat","version":1,"model":"m","messages":[{"role":"user"}]})",
         "message 1 has no text 'content'"},
        {R"({"format":"bmoe-chat","version":1,"model":"m","messages":[{"role":"user","content":"x"}]})", "ends with"}};
    Terminal terminal(plain());
    for (const auto &[text, error] : wrong) {
        std::ofstream(file) << text;
        terminal.read_until(kPrompt);
        terminal.type("/load " + file + "\r");
        terminal.read_until("error: " + file);
        terminal.read_until(error);
    }
    terminal.read_until(kPrompt);
    terminal.type("/load " + scratch_.file("nothing") + "\r");
    terminal.read_until("error: cannot read " + scratch_.file("nothing"));
    terminal.read_until(kPrompt);
    terminal.type("/save " + scratch_.file("no/such/folder") + "\r");
    terminal.read_until("error: cannot write");
    terminal.read_until(kPrompt);
    const std::string notes = scratch_.file("notes");
    std::ofstream(notes) << "not a conversation";
    const std::string fifo = scratch_.file("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    for (const std::string &other : {notes, fifo}) {
        terminal.type("/save " + other + "\r");
        terminal.read_until("error: cannot write " + other + ": it ");
        terminal.read_until(kPrompt);
    }
    EXPECT_EQ(fs::file_size(notes), std::string("not a conversation").size());
    EXPECT_TRUE(fs::is_fifo(fifo));
    const std::string large = scratch_.file("large");
    std::ofstream(large).flush();
    fs::resize_file(large, uint64_t{1} << 40);
    const std::pair<std::string, std::string> unreadable[] = {
        {"/dev/zero", "error: cannot read /dev/zero: it is no regular file"},
        {fifo, "error: cannot read " + fifo + ": it is no regular file"},
        {scratch_.path().string(), "it is no regular file"},
        {large, "error: " + large + ": is no saved conversation: it has more than 67108864 bytes"}};
    for (const auto &[other, error] : unreadable) {
        terminal.type("/load " + other + "\r");
        terminal.read_until(error);
        terminal.read_until(kPrompt);
    }
    terminal.type("/save\r");
    terminal.read_until("error: /save needs the name of a file");
    terminal.read_until(kPrompt);
    terminal.type("/dance\r");
    terminal.read_until("error: there is no command '/dance'");
    ask(terminal, "And the king said");
    EXPECT_EQ(leave(terminal), 0);
}

TEST_F(Chat, ResetsAndHelps) {
    Terminal terminal(plain());
    ask(terminal, "And the king said");
    terminal.read_until(kPrompt);
    terminal.type("/reset\r");
    terminal.read_until("a new conversation");
    terminal.read_until(kPrompt);
    terminal.type("/help\r");
    terminal.read_until("/load FILE");
    ask(terminal, "And the king said");
    EXPECT_THAT(stats(terminal), AllOf(HasSubstr("conversation: 2 messages"), HasSubstr("last prompt: 0 tokens were")));
    EXPECT_EQ(leave(terminal), 0);
}

TEST_F(Chat, RefusesAMessageThatDoesNotFitAndKeepsTheConversation) {
    Terminal terminal(plain("-n 6 -c 256"));
    ask(terminal, "And the king said");
    terminal.read_until(kPrompt);
    std::string lines;
    for (int i = 0; i < 40; ++i) {
        lines += "Zxq zxq " + std::to_string(i) + ", zxq zxq.\\\r";
    }
    terminal.type(lines + "The end.\r");
    terminal.read_until("more than the context of 256 holds; it is left as it was. /reset");
    EXPECT_THAT(stats(terminal), HasSubstr("conversation: 2 messages"));
    EXPECT_EQ(leave(terminal), 0);
}

#ifdef BMOE_LIBEDIT
TEST_F(Chat, RemembersMessagesOfThisRunAndTheOneBefore) {
    const std::string file = scratch_.file("chat.json");
    {
        Terminal terminal(plain());
        ask(terminal, "And the könig said");
        ask(terminal, "One\\\rtwo");
        terminal.read_until(kPrompt);
        terminal.type(std::string(kUp) + kUp + "\r");
        terminal.read_until("the answer ends");
        terminal.read_until(kPrompt);
        terminal.type("/save " + file + "\r");
        terminal.read_until("6 messages saved");
        EXPECT_EQ(leave(terminal), 0);
    }
    EXPECT_EQ(saved(file)["messages"][2]["content"], "One\ntwo");
    EXPECT_EQ(saved(file)["messages"][4]["content"], "And the könig said");
    Terminal terminal(plain());
    terminal.read_until(kPrompt);
    terminal.type(std::string(kUp) + kUp);  // the first is the command
    terminal.read_until("könig");
    terminal.type(kCtrlC);
    // Its prompt may be drawn again before that; a key typed before the next one may be lost with the line.
    terminal.read_until("(Ctrl-D or /exit ends the conversation)");
    EXPECT_EQ(leave(terminal), 0);
    EXPECT_TRUE(fs::exists(scratch_.file("state/bmoe/history")));
}

TEST_F(Chat, TakesPastedLinesAsOneMessage) {
    const std::string file = scratch_.file("chat.json");
    Terminal terminal(plain());
    terminal.read_until(kPrompt);
    terminal.type("\033[200~first\rsecond\rthird\033[201~\r");
    terminal.read_until("the answer ends");
    terminal.read_until(kPrompt);
    terminal.type("/save " + file + "\r");
    terminal.read_until("2 messages saved");
    EXPECT_EQ(leave(terminal), 0);
    EXPECT_EQ(saved(file)["messages"][0]["content"], "first\nsecond\nthird");
}
#endif

TEST_F(Chat, ABackslashContinuesTheMessage) {
    const std::string file = scratch_.file("chat.json");
    Terminal terminal(plain());
    terminal.read_until(kPrompt);
    terminal.type("first\\\r");
    terminal.read_until(". ");
    terminal.type("second\r");
    terminal.read_until("the answer ends");
    terminal.read_until(kPrompt);
    terminal.type("/save " + file + "\r");
    terminal.read_until("2 messages saved");
    EXPECT_EQ(leave(terminal), 0);
    EXPECT_EQ(saved(file)["messages"][0]["content"], "first\nsecond");
}

TEST_F(Chat, DimsReasoningAndKeepsItApart) {
    const std::string file = scratch_.file("chat.json");
    const std::string path = model(bmoe::test::kReasoningTemplate);
    Terminal terminal(chat(path));
    ask(terminal, "And the king said");
    terminal.read_until(kPrompt);
    terminal.type("/save " + file + "\r");
    terminal.read_until("2 messages saved");
    EXPECT_EQ(leave(terminal), 0);
    EXPECT_THAT(terminal.screen(), HasSubstr(kDim));
    EXPECT_EQ(saved(file)["messages"][1]["content"], "");
    EXPECT_THAT(saved(file)["messages"][1]["reasoning"].get<std::string>(), Not(testing::IsEmpty()));

    Terminal quick(chat(path, "-n 6 --no-think"));
    ask(quick, "And the king said");
    quick.read_until(kPrompt);
    quick.type("/save " + file + "\r");
    quick.read_until("2 messages saved");
    EXPECT_EQ(leave(quick), 0);
    EXPECT_THAT(quick.screen(), Not(HasSubstr(kDim)));
    EXPECT_FALSE(saved(file)["messages"][1].contains("reasoning"));
    EXPECT_THAT(saved(file)["messages"][1]["content"].get<std::string>(), Not(testing::IsEmpty()));
}

TEST_F(Chat, AnswersOneMessageOnStdoutAndReasonsOnStderr) {
    const std::string path = model(bmoe::test::kReasoningTemplate);
    const Finished reasoning = run_command(chat(path, "-n 6 --chat -p 'And the king said'"));
    EXPECT_EQ(reasoning.status, 0) << reasoning.err;
    EXPECT_EQ(reasoning.out, "\n");
    EXPECT_THAT(reasoning.err, AllOf(HasSubstr("[thinking]\n"), HasSubstr("\n[answer]\n"), Not(HasSubstr("\033"))));

    const Finished answer = run_command(chat(path, "-n 6 --chat --no-think -p 'And the king said'"));
    EXPECT_EQ(answer.status, 0) << answer.err;
    EXPECT_GT(answer.out.size(), 3u);
    EXPECT_THAT(answer.err, AllOf(Not(HasSubstr("[thinking]")), Not(HasSubstr("--no-think"))));

    const Finished plain =
        run_command(chat(model(bmoe::test::kPlainTemplate), "-n 6 --chat --no-think -p 'And the king said'"));
    EXPECT_EQ(plain.status, 0) << plain.err;
    EXPECT_THAT(plain.err, HasSubstr("note: --no-think has no effect: the model's chat template"));
}

TEST_F(Chat, NeedsATemplateAndATerminal) {
    Terminal terminal(chat(BMOE_DEMO_MODEL));
    terminal.read_until("error: the model has no chat template");
    EXPECT_EQ(terminal.wait(), 1);
    const Finished piped = run_command(chat(BMOE_DEMO_MODEL));
    EXPECT_EQ(piped.status, 2);
    EXPECT_THAT(piped.err, AllOf(HasSubstr("there is no prompt"), HasSubstr("-f -")));
}

}  // namespace
}  // namespace bmoe::apps::test
