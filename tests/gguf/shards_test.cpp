#include "gguf/shards.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "gguf/model_file.h"
#include "gguf/shard_name.h"
#include "tests/gguf/expect_error.h"
#include "tests/gguf/model_fixtures.h"
#include "tests/support/scratch.h"

namespace bmoe::gguf {
namespace {

namespace fs = std::filesystem;
using bmoe::test::Scratch;
using io::DirectIo;
using test::GgufWriter;
using test::Split;

Split three_shards(const std::string &prefix) {
    return test::split(test::metadata(), test::moe_model().tensors, 3, prefix);
}

void write(const Split &split) {
    for (size_t i = 0; i < split.shards.size(); ++i) split.shards[i].write(split.names[i]);
}

std::unique_ptr<ModelFile> open(const std::string &path) { return ModelFile::open(path, DirectIo::kOff); }

TEST(ShardName, IsParsedAndMade) {
    const auto name = parse_shard_name("/a/b-c-00002-of-00003.gguf");
    ASSERT_TRUE(name);
    EXPECT_EQ(name->prefix, "/a/b-c");
    EXPECT_EQ(name->number, 2U);
    EXPECT_EQ(name->count, 3U);
    EXPECT_EQ(name->sibling(3), "/a/b-c-00003-of-00003.gguf");
}

TEST(ShardName, OtherNamesAreNone) {
    for (const std::string path :
         {"", ".gguf", "a.gguf", "a-00001-of-00002.bin", "a-0001-of-0002.gguf", "a-00003-of-00002.gguf",
          "a-00000-of-00002.gguf", "a00001-of-00002.gguf", "a-0000x-of-00002.gguf", "a-00001-of-+0002.gguf",
          "00001-of-00002.gguf", "a-00001of-00002.gguf"}) {
        EXPECT_FALSE(parse_shard_name(path)) << path;
    }
}

class ShardsTest : public testing::Test {
  protected:
    Scratch scratch_;
    Split split_ = three_shards(scratch_.file("model"));
};

TEST_F(ShardsTest, AnyShardOpensTheWholeModel) {
    write(split_);
    for (const std::string &path : split_.names) {
        const auto model = open(path);
        ASSERT_EQ(model->shards().size(), 3U);
        EXPECT_EQ(model->architecture(), "testmoe");
        ASSERT_EQ(model->tensors().size(), 11U);
        uint64_t bytes = 0;
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(model->shards()[i]->path(), split_.names[i]);
            bytes += fs::file_size(split_.names[i]);
        }
        EXPECT_EQ(model->file_bytes(), bytes);
        EXPECT_EQ(model->tensors().front().shard, 0U);
        EXPECT_EQ(model->tensors().back().shard, 2U);
        EXPECT_EQ(model->expert_layers().size(), 2U);
    }
}

TEST_F(ShardsTest, BanksOfOneLayerMayLieInSeveralShards) {
    split_ = test::split(test::metadata(), test::moe_model().tensors, 4, scratch_.file("model"));
    write(split_);
    const auto model = open(split_.names[0]);
    for (const ExpertLayer &layer : model->expert_layers()) {
        for (const Bank &bank : layer.banks) {
            const auto file = test::read_bytes(split_.names[bank.shard]);
            const auto begin = file.begin() + long(bank.offset);
            const uint64_t size = bank.bytes_per_expert * bank.n_expert;
            EXPECT_EQ(std::vector(begin, begin + long(size)), test::tensor_data(bank.tensor, size)) << bank.tensor;
        }
    }
    EXPECT_NE(model->expert_layers()[1].banks.front().shard, model->expert_layers()[1].banks.back().shard);
}

TEST_F(ShardsTest, TheFirstShardMayHoldNoTensors) {
    std::swap(split_.shards[0].tensors, split_.shards[2].tensors);
    split_.shards[2].tensors.insert(split_.shards[2].tensors.end(), split_.shards[0].tensors.begin(),
                                    split_.shards[0].tensors.end());
    split_.shards[0].tensors.clear();
    write(split_);
    EXPECT_EQ(open(split_.names[0])->tensors().size(), 11U);
}

TEST_F(ShardsTest, AWholeModelMayHaveAnyName) {
    test::moe_model().write(split_.names[1]);
    EXPECT_EQ(open(split_.names[1])->shards().size(), 1U);

    GgufWriter one = test::moe_model();
    one.u16("split.no", 0).u16("split.count", 1).i32("split.tensors.count", 11);
    one.write(scratch_.file("one.gguf"));
    EXPECT_EQ(open(scratch_.file("one.gguf"))->shards().size(), 1U);
}

TEST_F(ShardsTest, SiblingsAreFoundBesideTheLinkAsGiven) {
    // The layout of download caches: links with the model's names to files named by their hashes.
    const std::string blobs = scratch_.folder("blobs");
    const std::string links = scratch_.folder("a snapshot");
    for (size_t i = 0; i < 3; ++i) {
        const std::string blob = blobs + "/" + std::to_string(i) + "abcdef";
        split_.shards[i].write(blob);
        split_.names[i] = links + "/" + fs::path(split_.names[i]).filename().string();
        fs::create_symlink(blob, split_.names[i]);
    }
    EXPECT_EQ(open(split_.names[1])->tensors().size(), 11U);
}

TEST_F(ShardsTest, SiblingsAreFoundBesideTheTargetOfALink) {
    write(split_);
    for (const std::string name : {"link.gguf", "model-00002-of-00003.gguf", "other-00002-of-00003.gguf"}) {
        const std::string link = scratch_.folder("links") + "/" + name;
        fs::create_symlink(split_.names[1], link);
        const auto model = open(link);
        EXPECT_EQ(model->tensors().size(), 11U);
        EXPECT_EQ(model->shards()[1]->path(), link);
        EXPECT_EQ(fs::path(model->shards()[2]->path()).filename(), "model-00003-of-00003.gguf");
    }
}

TEST_F(ShardsTest, AMissingShardIsNamed) {
    write(split_);
    fs::remove(split_.names[1]);
    EXPECT_ERROR(open(split_.names[2]), split_.names[1], "shard 2 of 3", "missing");
}

TEST_F(ShardsTest, ADanglingLinkIsMissing) {
    write(split_);
    fs::remove(split_.names[1]);
    fs::create_symlink(scratch_.file("gone"), split_.names[1]);
    EXPECT_ERROR(open(split_.names[0]), split_.names[1], "missing");
}

TEST_F(ShardsTest, ARenamedShardIsRefused) {
    write(split_);
    const std::string odd = scratch_.file("renamed.gguf");
    fs::copy_file(split_.names[0], odd);
    EXPECT_ERROR(open(odd), odd, "one of 3 shards", "name-00001-of-00003.gguf");

    fs::rename(split_.names[1], odd);
    fs::rename(split_.names[2], split_.names[1]);
    fs::rename(odd, split_.names[2]);
    EXPECT_ERROR(open(split_.names[0]), split_.names[1], "shard 2 of 3", "split.no 2");
    EXPECT_ERROR(open(split_.names[1]), split_.names[1], "shard 2 of 3", "split.no 2");
}

// Rewrites the third shard with other split keys.
Split with_third(
    Split split, std::optional<uint16_t> no, std::optional<uint16_t> count, int32_t tensors,
    const std::function<void(GgufWriter &)> &add = [](GgufWriter &) {}) {
    GgufWriter third;
    third.tensors = split.shards[2].tensors;
    if (no) third.u16("split.no", *no);
    if (count) third.u16("split.count", *count);
    third.i32("split.tensors.count", tensors);
    add(third);
    split.shards[2] = std::move(third);
    return split;
}

TEST_F(ShardsTest, DisagreeingSplitKeysAreRefused) {
    write(with_third(split_, 2, 4, 11));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], "split.count 4");
    EXPECT_ERROR(open(split_.names[2]), split_.names[2], "split.count 4");
    write(with_third(split_, 1, 3, 11));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], "split.no 1");
    write(with_third(split_, {}, 3, 11));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], "no key 'split.no'");
    write(with_third(split_, 2, {}, 11));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], "no key 'split.count'");
    write(with_third(split_, 2, 3, 12));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], split_.names[0], "12 tensors", "11");
}

TEST_F(ShardsTest, ASplitKeyOfTheWrongTypeIsRefused) {
    GgufWriter odd = test::moe_model();
    odd.text("split.count", "3").write(scratch_.file("odd.gguf"));
    EXPECT_ERROR(open(scratch_.file("odd.gguf")), scratch_.file("odd.gguf"), "'split.count'");
}

TEST_F(ShardsTest, AShardOfAnotherModelIsRefused) {
    write(with_third(split_, 2, 3, 11, [](auto &w) { w.text("general.architecture", "llama"); }));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], "general.architecture", "'llama'", "'testmoe'");
    write(with_third(split_, 2, 3, 11, [](auto &w) { w.text("general.name", "other"); }));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], "general.name", "'other'");
    write(with_third(split_, 2, 3, 11, [](auto &w) { w.tensors.back().name = "token_embd.weight"; }));
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], split_.names[0], "'token_embd.weight'");
    write(with_third(split_, 2, 3, 11, [](auto &w) { w.tensors.pop_back(); }));
    EXPECT_ERROR(open(split_.names[0]), split_.names[0], "promises 11", "hold 10");
    write(with_third(split_, 2, 3, 11, [](auto &w) { w.text("general.architecture", "testmoe"); }));
    EXPECT_NO_THROW(open(split_.names[0]));
}

TEST_F(ShardsTest, AShardWithoutTensorCountIsRefused) {
    GgufWriter first = test::metadata();
    first.tensors = split_.shards[0].tensors;
    first.u16("split.no", 0).u16("split.count", 3);
    split_.shards[0] = std::move(first);
    write(split_);
    EXPECT_ERROR(open(split_.names[0]), split_.names[0], "'split.tensors.count'");
}

TEST_F(ShardsTest, ACutShardIsNamed) {
    write(split_);
    fs::resize_file(split_.names[2], fs::file_size(split_.names[2]) - 30);
    EXPECT_ERROR(open(split_.names[0]), split_.names[2], "too short", "'output_norm.weight'");
}

}  // namespace
}  // namespace bmoe::gguf
