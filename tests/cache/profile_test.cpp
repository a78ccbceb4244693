#include "cache/profile.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kModel = 0x1234567890abcdef;

class ProfileTest : public testing::Test {
  protected:
    // 2 layers of 3 and 5 experts.
    static Geometry shape() {
        Geometry geometry = test::uniform(2, 3, 1, {100});
        geometry.layers[1].n_expert = 5;
        return geometry;
    }
    static std::vector<float> frequencies() { return {0.5F, 0.0F, 1.0F, 0.25F, 1e-9F, 0.1F, 0.0F, 0.7F}; }

    void write() const { write_profile(path_, key_, frequencies()); }
    std::string contents() const {
        std::ifstream in(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    size_t files_in_folder() const {
        const fs::directory_iterator folder(folder_.path());
        return static_cast<size_t>(std::distance(begin(folder), end(folder)));
    }
    // Reads a file that must be refused; the reason.
    std::string problem(bool replaceable) const {
        const ProfileRead read = read_profile(path_, key_);
        EXPECT_TRUE(read.frequencies.empty());
        EXPECT_NE(read.problem.find(path_), std::string::npos) << read.problem;
        EXPECT_EQ(read.replaceable, replaceable) << read.problem;
        return read.problem;
    }

    test::ScratchFolder folder_;
    std::string path_ = folder_.path() + "/a.profile";
    ProfileKey key_{kModel, shape()};
};

TEST_F(ProfileTest, ReturnsWhatWasWritten) {
    write();
    const ProfileRead read = read_profile(path_, key_);
    EXPECT_EQ(read.frequencies, frequencies());
    EXPECT_EQ(read.problem, "");
    EXPECT_TRUE(read.replaceable);
}

TEST_F(ProfileTest, ReplacesTheOldFileAndLeavesNothingElse) {
    write();
    write_profile(path_, key_, std::vector<float>(8, 0.125F));
    EXPECT_EQ(read_profile(path_, key_).frequencies, std::vector<float>(8, 0.125F));
    EXPECT_EQ(files_in_folder(), 1U);
}

TEST_F(ProfileTest, AMissingFileIsNoProblem) {
    const ProfileRead read = read_profile(path_, key_);
    EXPECT_TRUE(read.frequencies.empty());
    EXPECT_EQ(read.problem, "");
    EXPECT_TRUE(read.replaceable);
}

TEST_F(ProfileTest, LeavesOtherFilesAlone) {
    folder_.write("a.profile", "some text of the user's");
    EXPECT_NE(problem(false).find("no profile"), std::string::npos);
    fs::remove(path_);
    fs::create_directory(path_);
    EXPECT_NE(problem(false).find("not a regular file"), std::string::npos);
    fs::remove(path_);
    ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    EXPECT_NE(problem(false).find("not a regular file"), std::string::npos);
    fs::remove(path_);
    fs::create_symlink("/dev/null", path_);
    EXPECT_NE(problem(false).find("not a regular file"), std::string::npos);
}

TEST_F(ProfileTest, LeavesAnotherModelsProfileAlone) {
    write_profile(path_, ProfileKey(kModel + 1, shape()), frequencies());
    EXPECT_NE(problem(false).find("another model"), std::string::npos);
    Geometry other = shape();
    std::swap(other.layers[0], other.layers[1]);
    write_profile(path_, ProfileKey(kModel, other), frequencies());
    EXPECT_NE(problem(false).find("another model"), std::string::npos);
}

TEST_F(ProfileTest, NoticesEveryTruncation) {
    write();
    const std::string whole = contents();
    for (size_t length = 0; length < whole.size(); ++length) {
        folder_.write("a.profile", whole.substr(0, length));
        EXPECT_NE(problem(true).find("damaged"), std::string::npos) << length;
    }
    folder_.write("a.profile", whole + '\0');
    EXPECT_NE(problem(true).find("damaged"), std::string::npos);
}

TEST_F(ProfileTest, NoticesEveryChangedByte) {
    write();
    const std::string whole = contents();
    for (size_t at = 0; at < whole.size(); ++at) {
        for (const int change : {1, 0x80, 0xff}) {
            std::string changed = whole;
            changed[at] = static_cast<char>(changed[at] ^ change);
            folder_.write("a.profile", changed);
            const ProfileRead read = read_profile(path_, key_);
            EXPECT_TRUE(read.frequencies.empty()) << at;
            EXPECT_NE(read.problem, "") << at;
        }
    }
}

TEST_F(ProfileTest, RefusesNumbersThatAreNoFrequencies) {
    for (const float value : {-0.5F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        write_profile(path_, key_, std::vector<float>(8, value));
        EXPECT_NE(problem(true).find("damaged"), std::string::npos);
    }
}

TEST_F(ProfileTest, SaysWhyItCannotBeWritten) {
    const std::string missing = folder_.path() + "/none/a.profile";
    try {
        write_profile(missing, key_, frequencies());
        FAIL();
    } catch (const Error &error) {
        EXPECT_NE(std::string(error.what()).find(missing), std::string::npos) << error.what();
    }
    fs::create_directory(path_);  // cannot be replaced by a file
    EXPECT_THROW(write(), Error);
    EXPECT_EQ(files_in_folder(), 1U) << "the temporary file was left behind";
}

TEST_F(ProfileTest, ReadersSeeTheOldFileOrTheNewOne) {
    write_profile(path_, key_, std::vector<float>(8, 0.0F));
    std::vector<std::thread> writers;
    writers.reserve(2);
    for (int w = 0; w < 2; ++w) {
        writers.emplace_back([&] {
            for (int i = 0; i < 20; ++i) write_profile(path_, key_, std::vector<float>(8, static_cast<float>(i) / 32));
        });
    }
    for (int i = 0; i < 500; ++i) {
        const ProfileRead read = read_profile(path_, key_);
        ASSERT_EQ(read.problem, "");
        ASSERT_EQ(read.frequencies, std::vector<float>(8, read.frequencies.front()));
    }
    for (std::thread &writer : writers) writer.join();
    EXPECT_EQ(files_in_folder(), 1U);
}

}  // namespace
}  // namespace bmoe::cache
