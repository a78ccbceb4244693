// What ends the command before it is done: a signal, or a reader that has gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/apps/run_command.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kDemo = BMOE_DEMO_MODEL;

class CliEnding : public testing::Test {
  protected:
    // With reads so slow that it goes on for as long as a test needs. The preloaded library does not reach reads that the
    // kernel performs for an io_uring.
    static std::string slow(const std::string &arguments) {
        return "LD_PRELOAD=" + quoted(BMOE_FAULT_SHIM) +
               " BMOE_FAULT_PATH=demo-moe BMOE_FAULT_KIND=slow BMOE_FAULT_DELAY_MS=5 " + quoted(BMOE_CLI) + " -m " +
               quoted(kDemo) + " --no-warm-start --moe-stream --cache-mb 1 -t 1 -c 1024 --io-engine lanes " + arguments;
    }

    // Runs it in the background until its file `grown` has more than so many bytes, then sends the signal.
    Finished signalled(const char *signal, const std::string &command, const std::string &grown, int bytes) const {
        return run_command(": >" + quoted(grown) + "; " + command + " >" + quoted(out_) + " 2>" + quoted(err_) +
                           " & pid=$!; while [ $(wc -c <" + quoted(grown) + ") -le " + std::to_string(bytes) +
                           " ] && kill -0 $pid; do sleep 0.01; done; kill -" + signal + " $pid; wait $pid; s=$?; cat " +
                           quoted(out_) + "; cat " + quoted(err_) + " >&2; exit $s");
    }

    bmoe::test::Scratch scratch_;
    const std::string out_ = scratch_.file("out");
    const std::string err_ = scratch_.file("err");
};

TEST_F(CliEnding, ASignalEndsTheAnswerAndLeavesItsSummary) {
    const std::string prompt = "And the king said unto";
    const struct {
        const char *name;
        int number;
    } signals[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}};
    for (const auto &signal : signals) {
        const Finished run =
            signalled(signal.name, slow("-n 900 -p " + quoted(prompt)), out_, static_cast<int>(prompt.size()) + 8);
        EXPECT_EQ(run.status, 128 + signal.number) << run.err;
        EXPECT_THAT(run.out, testing::StartsWith(prompt));
        EXPECT_EQ(run.out.back(), '\n');
        EXPECT_THAT(run.err, AllOf(HasSubstr("\ngeneration: "), HasSubstr("\nbound: "), Not(HasSubstr("error:"))));
        EXPECT_THAT(run.err, Not(HasSubstr("generation: 0 tokens")));
    }
}

TEST_F(CliEnding, ASignalEndsAPerplexityWithWhatWasScored) {
    const std::string text = scratch_.file("text");
    ASSERT_EQ(
        run_command("for i in $(seq 60); do echo 'And the king said unto him, Go.'; done >" + quoted(text)).status, 0);
    // The memory plan is printed when the model is open.
    const Finished run = signalled("INT", "BMOE_FAULT_AFTER=200 " + slow("perplexity -f " + quoted(text)), err_, 150);
    EXPECT_EQ(run.status, 128 + SIGINT) << run.err;
    EXPECT_THAT(run.err,
                AllOf(HasSubstr("\ngeneration: "), HasSubstr("first token after -1.00 s"), Not(HasSubstr("error:"))));
    EXPECT_TRUE(run.out.rfind("perplexity: ", 0) == 0 ||
                run.err.find("note: interrupted before a token was scored\n") != std::string::npos)
        << run.out << run.err;
}

TEST_F(CliEnding, AReaderThatHasGoneEndsTheAnswer) {
    const std::string status = scratch_.file("status");
    const Finished run = run_command("{ " + slow("-n 900 -p 'And the king said unto'") + " 2>" + quoted(err_) +
                                     "; echo $? >" + quoted(status) + "; } | head -c 30; cat " + quoted(err_) +
                                     " >&2; exit $(cat " + quoted(status) + ")");
    EXPECT_EQ(run.status, 128 + SIGPIPE) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("\ngeneration: "), HasSubstr("\nbound: ")));
}

}  // namespace
}  // namespace bmoe::apps::test
