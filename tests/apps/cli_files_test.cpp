// What a command line must not do to files, and what it says of those that are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/apps/run_command.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const std::string kDemo = BMOE_DEMO_MODEL;
const std::string kRun = " --moe-stream on --cache-mb 2 -t 1 -c 512 -n 4 ";

std::string cli(const std::string &flags, const std::string &model = kDemo) {
    return quoted(BMOE_CLI) + " -m " + quoted(model) + kRun + flags;
}

std::string read_file(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

class CliFiles : public testing::Test {
  protected:
    std::string make(const std::string &name, const std::string &text) const {
        std::string path = scratch_.file(name);
        std::ofstream(path) << text;
        return path;
    }

    bmoe::test::Scratch scratch_;
};

TEST_F(CliFiles, ARecordReplacesNothingThatIsRead) {
    const std::string prompt = make("a prompt", "And the king said");
    const std::string profile = make("profile", "");
    const std::string model = scratch_.file("another model");
    fs::copy_file(kDemo, model);
    for (const char *flag : {"--csv ", "--route-trace ", "--io-trace "}) {
        for (const std::string &flags : {"-f " + quoted(prompt) + " --no-warm-start " + flag + quoted(prompt),
                                         "-p And --profile " + quoted(profile) + " " + flag + quoted(profile),
                                         "-p And --no-warm-start " + std::string(flag) + quoted(model)}) {
            const Finished run = run_command(cli(flags));
            EXPECT_EQ(run.status, 2) << flags;
            EXPECT_THAT(run.err, HasSubstr(flag)) << flags;
        }
    }
    EXPECT_EQ(read_file(prompt), "And the king said");
    EXPECT_EQ(fs::file_size(model), fs::file_size(kDemo));
}

TEST_F(CliFiles, TwoRecordsAreTwoFiles) {
    const std::string here = "cd " + quoted(scratch_.file("")) + " && ";
    const Finished run = run_command(here + cli("--no-warm-start -p And --csv ./same --route-trace same"));
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, HasSubstr("the same file"));
}

TEST_F(CliFiles, ANameThatIsEmptyIsAMistake) {
    for (const std::string flag : {"--csv", "--route-trace", "--io-trace"}) {
        const Finished run = run_command(cli("--no-warm-start -p And " + flag + " ''"));
        EXPECT_EQ(run.status, 2) << flag;
        EXPECT_THAT(run.err, HasSubstr(flag + ": the name of the file is empty"));
    }
}

TEST_F(CliFiles, AClosedDescriptorIsNotTheNextFile) {
    const std::string csv = scratch_.file("csv");
    const std::string flags = "--no-warm-start -p 'And the king said' --csv " + quoted(csv);
    const Finished out = run_command(cli(flags) + " >&-");
    EXPECT_EQ(out.status, 1);
    EXPECT_THAT(out.err, HasSubstr("cannot write to standard output"));
    for (const std::string &line : {cli(flags) + " 2>&-", cli(flags) + " <&-"}) {
        EXPECT_EQ(run_command(line).status, 0) << line;
        const std::string record = read_file(csv);
        EXPECT_TRUE(record.starts_with("# ")) << record.substr(0, 80);
        EXPECT_THAT(record, Not(HasSubstr("memory: ")));
        EXPECT_THAT(record, HasSubstr("\nsummary,"));
    }
    const Finished session = run_command(quoted(BMOE_CLI) + " -m " + quoted(kDemo) + " --session <&-");
    EXPECT_EQ(session.status, 0);
    EXPECT_THAT(session.out, Not(HasSubstr("bad_request")));
}

TEST_F(CliFiles, SaysWhatCannotBeWritten) {
    const Finished session =
        run_command(quoted(BMOE_CLI) + " -m " + quoted(kDemo) + " --session </dev/null >/dev/full");
    EXPECT_EQ(session.status, 1);
    EXPECT_THAT(session.err, HasSubstr("cannot write to standard output"));
    const std::string csv = scratch_.file("csv");
    // The limit is not for what the test keeps of it.
    const std::string flags = "--no-warm-start -p 'And the king' -n 100 --csv " + quoted(csv);
    const Finished limited =
        run_command("{ ulimit -f 1; " + cli(flags) + " 2>&1 >/dev/null; echo status $?; } | cat >&2");
    EXPECT_THAT(limited.err, HasSubstr("--csv " + csv + ": cannot be written to"));
    EXPECT_THAT(limited.err, HasSubstr("status 1"));
}

TEST_F(CliFiles, AFileWithoutEndIsNoText) {
    const Finished prompt = run_command(cli("--no-warm-start -f /dev/zero"));
    EXPECT_EQ(prompt.status, 1);
    EXPECT_THAT(prompt.err, HasSubstr("/dev/zero: has a NUL byte at offset 0"));
    const Finished trace = run_command(cli("--no-warm-start -p And --route-replay /dev/zero"));
    EXPECT_EQ(trace.status, 1);
    EXPECT_THAT(trace.err, HasSubstr("/dev/zero, line 1: is not '# route_trace v1'"));
}

TEST_F(CliFiles, NanIsNoNumber) {
    for (const char *flag :
         {"--temp", "--top-p", "--min-p", "--drop-cold-experts", "--substitute-cold", "--quality-budget"}) {
        const Finished run = run_command(cli(std::string("--no-warm-start -p And ") + flag + " nan"));
        EXPECT_EQ(run.status, 2) << flag;
        EXPECT_THAT(run.err, HasSubstr(flag)) << flag;
    }
}

}  // namespace
}  // namespace bmoe::apps::test
