#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/apps/run_command.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kTiny = BMOE_TINY_MODELS;

Finished list(const std::string &folder) { return run_command(quoted(BMOE_CLI) + " --list-models " + quoted(folder)); }

TEST(ListModels, SaysWhatEachIsAndGoesOnAfterABrokenOne) {
    const bmoe::test::Scratch scratch;
    const std::string folder = scratch.folder("mit Leerzeichen/größer");
    fs::copy_file(kTiny + "/qwen3moe.gguf", folder + "/a.gguf");
    fs::create_symlink(kTiny + "/qwen3.gguf", folder + "/größe.gguf");
    for (const char *shard : {"1", "2", "3"}) {
        const std::string name = std::string("gpt-oss-0000") + shard + "-of-00003.gguf";
        fs::copy_file(fs::path(kTiny) / name, fs::path(folder) / name);
    }
    fs::copy_file(kTiny + "/lfm2moe-00002-of-00003.gguf", folder + "/lonely-00002-of-00003.gguf");
    std::ofstream(folder + "/broken.gguf") << "GGUF";
    std::ofstream(folder + "/notes.txt") << "no model";
    fs::create_directory_symlink(scratch.path(), folder + "/loop");

    const Finished run = list(scratch.file("mit Leerzeichen"));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, ContainsRegex("größer/a.gguf +qwen3moe +[0-9.]+ M +[0-9]+ MiB +16/4 .* yes +whole\n"));
    EXPECT_THAT(run.out, ContainsRegex("größer/größe.gguf +qwen3 +[0-9.]+ M .* 0 MiB .* no +whole\n"));
    EXPECT_THAT(run.out, ContainsRegex("größer/gpt-oss.gguf \\(3 shards\\) +gpt-oss .* 16/4 +mxfp4 .* yes +whole\n"));
    EXPECT_THAT(run.out, ContainsRegex("größer/broken.gguf  error: [^\n]*broken.gguf"));
    EXPECT_THAT(run.out, ContainsRegex("größer/lonely.gguf \\(3 shards\\)  error: [^\n]*missing"));
    EXPECT_THAT(run.out, AllOf(Not(HasSubstr("notes.txt")), Not(HasSubstr("loop"))));
    EXPECT_EQ(run.err, "");
}

TEST(ListModels, NeedsAFolderAndNoModel) {
    const bmoe::test::Scratch scratch;
    const Finished missing = list(scratch.file("nothing"));
    EXPECT_EQ(missing.status, 1);
    EXPECT_THAT(missing.err, AllOf(HasSubstr("error: --list-models"), HasSubstr(scratch.file("nothing"))));
    const Finished empty = list(scratch.folder("empty"));
    EXPECT_EQ(empty.status, 0);
    EXPECT_THAT(empty.out, HasSubstr("no GGUF files below " + scratch.file("empty")));
    EXPECT_EQ(run_command(quoted(BMOE_CLI) + " -p text").status, 2);
}

TEST(ListModels, TakesNoOtherFlag) {
    for (const char *flags :
         {"--model x", "--prompt And", "--chat", "--no-think", "--ram 6G", "--cache-mb 100", "--moe-stream on",
          "--temp 1", "--session", "--csv x", "--progress", "--threads 2", "--ctx-size 64"}) {
        const Finished refused = run_command(quoted(BMOE_CLI) + " --list-models . " + flags);
        EXPECT_EQ(refused.status, 2) << flags;
        EXPECT_THAT(refused.err, HasSubstr(std::string(flags).substr(0, std::string(flags).find(' ')))) << flags;
        EXPECT_EQ(refused.out, "") << flags;
    }
}

}  // namespace
}  // namespace bmoe::apps::test
