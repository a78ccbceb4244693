#include "gguf/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/gguf/model_fixtures.h"
#include "tests/support/scratch.h"

namespace bmoe::gguf {
namespace {

using test::GgufWriter;

class FingerprintTest : public testing::Test {
  protected:
    uint64_t of(const std::string &path) { return fingerprint(*ModelFile::open(path, io::DirectIo::kOff)); }
    uint64_t of(const GgufWriter &writer) {
        const std::string path = scratch_.file("m.gguf");
        writer.write(path);
        return of(path);
    }

    bmoe::test::Scratch scratch_;
};

TEST_F(FingerprintTest, StaysWhenTheFileIsRenamedAndMoved) {
    const uint64_t before = of(test::moe_model());
    const std::string elsewhere = scratch_.folder("else where") + "/other.gguf";
    std::filesystem::rename(scratch_.file("m.gguf"), elsewhere);
    EXPECT_EQ(of(elsewhere), before);
}

TEST_F(FingerprintTest, TellsModelsApart) {
    std::set<uint64_t> seen;
    const auto is_new = [&](const GgufWriter &writer) { return seen.insert(of(writer)).second; };
    EXPECT_TRUE(is_new(test::moe_model()));
    EXPECT_FALSE(is_new(test::moe_model()));
    EXPECT_TRUE(is_new(test::moe_model().text("general.finetune", "a")));
    EXPECT_TRUE(is_new(test::moe_model().text("general.finetune", "b")));
    EXPECT_TRUE(is_new(test::moe_model().tensor("a", test::kF32, {8})));
    EXPECT_TRUE(is_new(test::moe_model().tensor("b", test::kF32, {8})));
    EXPECT_TRUE(is_new(test::moe_model().tensor("a", test::kF32, {4, 2})));
    EXPECT_TRUE(is_new(test::moe_model().tensor("a", test::kF16, {16})));
    EXPECT_TRUE(is_new(test::gateless_model()));
    EXPECT_TRUE(is_new(test::chunked_model()));
}

TEST_F(FingerprintTest, IsTheSameFromAnyShard) {
    const test::Split split =
        test::split(test::metadata(),
                    {{"blk.0.ffn_up_exps.weight", test::kF32, {4, 4, 3}, {}}, {"output", test::kF32, {4}, {}}}, 2, "s");
    for (size_t i = 0; i < split.names.size(); ++i) {
        split.shards[i].write(scratch_.file(split.names[i]));
    }
    EXPECT_EQ(of(scratch_.file(split.names[0])), of(scratch_.file(split.names[1])));
}

}  // namespace
}  // namespace bmoe::gguf
