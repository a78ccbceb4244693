#include "tests/support/scratch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

namespace bmoe::test {
namespace {

namespace fs = std::filesystem;

TEST(Scratch, IsInTheBuildFolderWhateverTheWorkingDirectory) {
    const fs::path before = fs::current_path();
    const fs::path program = fs::read_symlink("/proc/self/exe");
    fs::current_path("/");
    fs::path path;
    {
        const Scratch scratch;
        path = scratch.path();
        EXPECT_EQ(path.parent_path().parent_path(), program.parent_path());
        std::ofstream(scratch.folder("mit Leerzeichen") + "/größe.gguf") << "text";
    }
    fs::current_path(before);
    EXPECT_FALSE(fs::exists(path));
}

TEST(Scratch, OfAProgramThatWasKilledIsRemovedByTheNextAndNoOtherIs) {
    const Scratch scratch;
    const fs::path parent = scratch.folder("parent");
    const Scratch living(parent);
    std::ofstream(living.file("kept")) << "text";
    std::ofstream(parent / "bmoe_test_file") << "text";
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const Scratch left(parent);
        std::ofstream(left.folder("mit Leerzeichen") + "/größe.gguf") << "text";
        fs::create_directory(parent / "is made");
        kill(getpid(), SIGKILL);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ASSERT_TRUE(fs::exists(parent / "is made"));
    const auto scratches = [&] {
        size_t n = 0;
        for (const auto &entry : fs::directory_iterator(parent)) {
            n += entry.is_directory() && entry.path().filename().string().starts_with("bmoe_test_") ? 1 : 0;
        }
        return n;
    };
    EXPECT_EQ(scratches(), 2U);
    const Scratch next(parent);
    EXPECT_EQ(scratches(), 2U);
    EXPECT_TRUE(fs::exists(next.path()));
    EXPECT_TRUE(fs::exists(living.file("kept")));
    EXPECT_TRUE(fs::exists(parent / "bmoe_test_file"));
}

}  // namespace
}  // namespace bmoe::test
