// That the command's sampling flags reach the sampler, and what is recorded of them.
#include <string>

#include "tests/apps/recorded_run.h"
#include "tests/apps/session_process.h"

namespace bmoe::apps::test {
namespace {

const std::string kFlags = " --moe-stream --cache-mb 2 --no-warm-start -t 1 -c 512 -n 24 ";
const std::string kPrompt = "And the king said unto";
const std::string kHot = "--temp 5 --top-k 0 --top-p 1 --min-p 0 ";

class CliSampling : public RecordedRun {
  protected:
    static Finished run(const std::string &flags) {
        Finished finished = run_command(quoted(BMOE_CLI) + " -m " + quoted(BMOE_DEMO_MODEL) + kFlags + flags + " -p " +
                                        quoted(kPrompt));
        EXPECT_EQ(finished.status, 0) << finished.err;
        return finished;
    }
    static std::string text(const std::string &flags) { return run(flags).out; }
};

// Where a filter leaves the likeliest token alone, a temperature changes nothing.
TEST_F(CliSampling, EachFilterReachesTheSampler) {
    const std::string greedy = text("");
    EXPECT_NE(text(kHot + "--seed 1"), greedy);
    EXPECT_EQ(text(kHot + "--seed 1 --top-k 1"), greedy);
    EXPECT_EQ(text(kHot + "--seed 1 --top-p 0"), greedy);
    EXPECT_EQ(text(kHot + "--seed 1 --min-p 1"), greedy);
    EXPECT_EQ(text("--temp 0 --seed 1"), greedy);
}

TEST_F(CliSampling, ASeedRepeatsItsText) {
    EXPECT_EQ(text(kHot + "--seed 1"), text(kHot + "--seed 1"));
    EXPECT_NE(text(kHot + "--seed 1"), text(kHot + "--seed 2"));
}

TEST_F(CliSampling, TheSeedThatWasDrawnIsRecorded) {
    const std::string drawn = text(kHot + csv_flag_);
    const std::string seed = Table(read_file(csv_)).preamble.at("seed");
    EXPECT_EQ(text(kHot + "--seed " + seed), drawn);
    EXPECT_NE(text(kHot), drawn) << "another one each time";
    run("--temp 0" + csv_flag_);
    EXPECT_EQ(Table(read_file(csv_)).preamble.at("seed"), "none");
}

// The text of an answer of a session with these flags.
std::string session_text(const std::string &flags, nlohmann::json request) {
    SessionProcess session(quoted(BMOE_CLI) + " --session -m " + quoted(BMOE_DEMO_MODEL) + kFlags + flags);
    session.next("BMOE_READY");
    request["op"] = "generate";
    request["id"] = "a";
    request["prompt"] = kPrompt;
    session.send(request);
    std::string said;
    const OutputLine done = session.answer(&said);
    EXPECT_EQ(done.word, "BMOE_DONE") << done.body;
    return said;
}

TEST_F(CliSampling, FlagsAreWhatARequestOfASessionDoesNotSay) {
    const nlohmann::json hot = {{"temperature", 5}, {"top_k", 0}, {"top_p", 1}, {"min_p", 0}, {"seed", 7}};
    const std::string expected = session_text("", hot);
    EXPECT_EQ(session_text(kHot + "--seed 7", {}), expected);
    EXPECT_EQ(session_text(kHot + "--seed 8", {{"seed", 7}}), expected);
    EXPECT_NE(session_text(kHot + "--seed 8", {}), expected);
    const std::string greedy = session_text("", {});
    EXPECT_NE(greedy, expected);
    for (const char *filter : {"--top-k 1", "--top-p 0", "--min-p 1"}) {
        EXPECT_EQ(session_text(kHot + "--seed 7 " + filter, {}), greedy) << filter;
    }
    EXPECT_EQ(session_text(kHot + "--seed 7", {{"temperature", 0}}), greedy);
    EXPECT_TRUE(greedy.rfind(session_text("-n 5", {}), 0) == 0);
}

}  // namespace
}  // namespace bmoe::apps::test
