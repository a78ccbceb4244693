#include "base/output_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/scratch.h"

namespace bmoe {
namespace {

std::string contents(const std::string &path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TEST(OutputFile, HoldsWhatWasWritten) {
    const test::Scratch scratch;
    const std::string path = scratch.file("a.csv");
    OutputFile file("--csv", path);
    file.write("one\n");
    file.flush();
    EXPECT_EQ(contents(path), "one\n");
    file.write("two\n");
    file.close();
    EXPECT_EQ(contents(path), "one\ntwo\n");
    EXPECT_EQ(file.error(), "");
}

TEST(OutputFile, ThatCannotBeMadeIsAnErrorWithFlagAndPath) {
    const test::Scratch scratch;
    const std::string path = scratch.file("nowhere/a.csv");
    try {
        const OutputFile file("--csv", path);
        FAIL() << "no error";
    } catch (const Error &error) {
        EXPECT_EQ(error.what(), "--csv " + path +
                                    ": cannot be made (No such file or directory); give a path that can be "
                                    "written to");
    }
}

TEST(OutputFile, RemembersThatTheDiskIsFullAndGoesOn) {
    OutputFile file("--io-trace", "/dev/full");
    file.write("some\n");
    file.flush();
    const std::string error = file.error();
    EXPECT_EQ(error, "--io-trace /dev/full: cannot be written to (No space left on device); the file is not complete");
    file.write(std::string(1 << 20, 'x'));
    file.close();
    EXPECT_EQ(file.error(), error);
}

TEST(OutputFile, NoticesAFullDiskWhenItIsClosed) {
    OutputFile file("--csv", "/dev/full");
    file.write("some\n");
    EXPECT_EQ(file.error(), "");
    file.close();
    EXPECT_NE(file.error(), "");
}

}  // namespace
}  // namespace bmoe
