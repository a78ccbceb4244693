// Prompts out of files, and how far a long one has been read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/apps/run_command.h"
#include "tests/apps/terminal.h"
#include "tests/support/scratch.h"

namespace bmoe::apps::test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

std::string run(const std::string &flags) {
    return quoted(BMOE_CLI) + " -m " + quoted(BMOE_DEMO_MODEL) + " -t 1 -c 2048 -n 4 " + flags;
}

TEST(PromptFile, IsThePromptWhole) {
    const bmoe::test::Scratch scratch;
    const std::string file = scratch.folder("mit Leerzeichen") + "/größe.txt";
    const std::string text = "And the king said\nunto größer";
    std::ofstream(file) << text;
    const std::string link = scratch.file("link");
    fs::create_symlink(file, link);
    const Finished told = run_command(run("-p " + quoted(text)));
    EXPECT_EQ(told.status, 0) << told.err;
    EXPECT_EQ(told.out.substr(0, text.size()), text);
    for (const std::string &flags : {"-f " + quoted(file), "--raw -f " + quoted(link), "-f - <" + quoted(file)}) {
        const Finished read = run_command(run(flags));
        EXPECT_EQ(read.status, 0) << read.err;
        EXPECT_EQ(read.out, told.out) << flags;
    }
}

TEST(PromptFile, IsRefusedWithItsNameIfItIsNoText) {
    const bmoe::test::Scratch scratch;
    const auto error = [&](const std::string &file) {
        const Finished finished = run_command(run("-f " + quoted(file)));
        EXPECT_EQ(finished.status, 1) << file;
        EXPECT_THAT(finished.err, HasSubstr("error: " + file + ":"));
        return finished.err;
    };
    const auto written = [&](const std::string &text) {
        std::string file = scratch.file("prompt");
        std::ofstream(file, std::ios::binary) << text;
        return file;
    };
    EXPECT_THAT(error(scratch.file("nothing")), HasSubstr("No such file"));
    EXPECT_THAT(error(scratch.folder("folder")), HasSubstr("directory"));
    EXPECT_THAT(error(written("")), HasSubstr("is empty"));
    EXPECT_THAT(error(written(std::string("ab\0c", 4))), HasSubstr("NUL byte at offset 2"));
    EXPECT_THAT(error(written("gr\xF6\xDF er")), HasSubstr("not UTF-8 at offset 2"));
    const Finished empty = run_command(run("-f -"));
    EXPECT_EQ(empty.status, 1);
    EXPECT_THAT(empty.err, HasSubstr("standard input: is empty"));
}

TEST(PromptFile, IsNotPrintedIfItDoesNotFit) {
    const bmoe::test::Scratch scratch;
    std::ofstream file(scratch.file("prompt"));
    for (int i = 0; i < 3000; ++i) {
        file << "And the king said. ";
    }
    file.close();
    const Finished finished = run_command(run("-f " + quoted(scratch.file("prompt"))));
    EXPECT_EQ(finished.status, 1);
    EXPECT_EQ(finished.out, "");
    EXPECT_THAT(finished.err, ContainsRegex("error: the prompt has [0-9]+ tokens, but the context holds 2048"));
    EXPECT_THAT(finished.err, testing::Not(HasSubstr("generation:"))) << "nothing was computed";
}

TEST(PromptFlags, ExcludeEachOther) {
    EXPECT_EQ(run_command(run("-p a -f b")).status, 2);
    EXPECT_EQ(run_command(run("--chat --raw -p a")).status, 2);
    EXPECT_EQ(run_command(run("--raw")).status, 2);
    EXPECT_THAT(run_command(run("--no-think -p And")).err, HasSubstr("--no-think has no effect"));
}

TEST(PromptProgress, IsShownOnATerminalForALongPrompt) {
    const bmoe::test::Scratch scratch;
    std::ofstream file(scratch.file("prompt"));
    for (int i = 0; i < 60; ++i) {
        file << "And the king said unto them. ";
    }
    file.close();
    const std::string command = run("-ub 64 -f " + quoted(scratch.file("prompt")));
    Terminal terminal(command);
    EXPECT_EQ(terminal.wait(), 0);
    EXPECT_THAT(terminal.screen(),
                ContainsRegex("reading prompt: 128 of [0-9]+ tokens, [0-9.]+ tok/s, ([0-9]+ min )?[0-9]+ s left"));
    EXPECT_THAT(run_command(command).err, testing::Not(HasSubstr("reading prompt")));
}

}  // namespace
}  // namespace bmoe::apps::test
