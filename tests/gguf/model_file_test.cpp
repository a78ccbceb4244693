#include "gguf/model_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/gguf/expect_error.h"
#include "tests/gguf/model_fixtures.h"
#include "tests/support/scratch.h"

namespace bmoe::gguf {
namespace {

using bmoe::test::Scratch;
using io::DirectIo;
using test::GgufWriter;

class ModelFileTest : public testing::Test {
  protected:
    std::unique_ptr<ModelFile> open(const GgufWriter &writer, DirectIo mode = DirectIo::kOff) {
        writer.write(path_);
        return ModelFile::open(path_, mode);
    }

    Scratch scratch_;
    std::string path_ = scratch_.file("m.gguf");
};

TEST_F(ModelFileTest, SumsUpTheFile) {
    for (const DirectIo mode : {DirectIo::kOff, DirectIo::kVerified}) {
        const auto model = open(test::moe_model(), mode);
        EXPECT_EQ(model->shards().size(), 1U);
        EXPECT_EQ(model->architecture(), "testmoe");
        EXPECT_EQ(model->expert_used_count(), 2U);
        EXPECT_EQ(model->file_bytes(), std::filesystem::file_size(path_));
        const uint64_t q8 = 32 * 2 * 34;
        const uint64_t experts = 4 * (2 * q8 + 64 * 32 * 2) + 4 * (3 * 210 + 2 * 144 + 2 * 8 * 17);
        EXPECT_EQ(model->expert_bytes(), experts);
        EXPECT_EQ(model->dense_bytes(), 5U * 2 * 34 + 64 * 32 * 2 + 64 * 3 * 4 * 4 + 64 * 4 * 4 + 3 * 4);
        EXPECT_EQ(model->is_direct(), model->shards()[0]->is_direct());
        EXPECT_EQ(model->io_note().empty(), model->is_direct() || mode == DirectIo::kOff);
    }
}

TEST_F(ModelFileTest, FindsTensorsByName) {
    const auto model = open(test::moe_model());
    ASSERT_EQ(model->tensors().size(), 11U);
    for (const Tensor &tensor : model->tensors()) EXPECT_EQ(model->find(tensor.info.name), &tensor);
    EXPECT_EQ(model->find("blk.7.ffn_up.weight"), nullptr);
}

TEST_F(ModelFileTest, KnowsWhichTensorsAreBanks) {
    for (const GgufWriter &writer : {test::moe_model(), test::merged_gate_up_model()}) {
        const auto model = open(writer);
        uint64_t dense = 0;
        for (const Tensor &tensor : model->tensors()) {
            dense += model->is_bank(tensor.info.name) ? 0 : tensor.info.bytes;
        }
        EXPECT_EQ(dense, model->dense_bytes());
        EXPECT_TRUE(model->is_bank(model->expert_layers().front().banks.front().tensor));
        EXPECT_FALSE(model->is_bank("blk.7.ffn_up.weight"));
    }
}

TEST_F(ModelFileTest, ReadsAHeaderLargerThanTheFirstRead) {
    GgufWriter writer = test::moe_model();
    writer.string_array("many", std::vector<std::string>(200000, std::string(200, 'x')));
    const auto model = open(writer, DirectIo::kVerified);
    EXPECT_EQ(model->metadata().find("many")->value.size(), 12 + 200000 * 208U);
    EXPECT_EQ(model->tensors().size(), 11U);
}

TEST_F(ModelFileTest, TakesTheLargestExpertUsedCount) {
    GgufWriter writer;
    writer.text("general.architecture", "a").i32_array("a.expert_used_count", {0, 1, 3, 2});
    writer.tensor("blk.1.ffn_up_exps.weight", test::kF32, {4, 4, 3});
    EXPECT_EQ(open(writer)->expert_used_count(), 3U);
}

TEST_F(ModelFileTest, AModelWithoutExpertsUsesNone) {
    GgufWriter writer = test::metadata();
    writer.tensor("a", test::kF32, {4});
    const auto model = open(writer);
    EXPECT_EQ(model->expert_used_count(), 0U);
    EXPECT_TRUE(model->expert_layers().empty());
    EXPECT_EQ(model->expert_bytes(), 0U);
}

TEST_F(ModelFileTest, RefusesAnImpossibleExpertUsedCount) {
    const auto model = [](const std::function<void(GgufWriter &)> &add) {
        GgufWriter writer;
        writer.text("general.architecture", "a").tensor("blk.1.ffn_up_exps.weight", test::kF32, {4, 4, 3});
        add(writer);
        return writer;
    };
    EXPECT_ERROR(open(model([](auto &) {})), path_, "'a.expert_used_count'", "missing");
    EXPECT_ERROR(open(model([](auto &w) { w.text("a.expert_used_count", "2"); })), path_, "'a.expert_used_count'");
    EXPECT_ERROR(open(model([](auto &w) { w.i32("a.expert_used_count", -2); })), path_, "'a.expert_used_count'");
    EXPECT_ERROR(open(model([](auto &w) { w.i32_array("a.expert_used_count", {}); })), path_, "'a.expert_used_count'");
    EXPECT_ERROR(open(model([](auto &w) { w.u32("a.expert_used_count", 0); })), path_, "0 of 3");
    EXPECT_ERROR(open(model([](auto &w) { w.u32("a.expert_used_count", 4); })), path_, "4 of 3");
}

TEST_F(ModelFileTest, TakesAnotherExpertUsedCountWithinItsExperts) {
    GgufWriter writer;
    writer.text("general.architecture", "a").u32("a.expert_used_count", 2);
    writer.tensor("blk.1.ffn_up_exps.weight", test::kF32, {4, 4, 3});
    const auto model = open(writer);
    EXPECT_EQ(model->expert_used_key(), "a.expert_used_count");
    EXPECT_ERROR(model->override_expert_used_count(0), path_, "--n-expert-used", "from 1 to 3");
    EXPECT_ERROR(model->override_expert_used_count(4), path_, "--n-expert-used", "from 1 to 3");
    EXPECT_EQ(model->expert_used_count(), 2U);
    model->override_expert_used_count(3);
    EXPECT_EQ(model->expert_used_count(), 3U);
}

TEST_F(ModelFileTest, RefusesOneExpertUsedCountWhereThereAreManyOrNone) {
    GgufWriter many;
    many.text("general.architecture", "a").i32_array("a.expert_used_count", {2, 1});
    many.tensor("blk.1.ffn_up_exps.weight", test::kF32, {4, 4, 3});
    EXPECT_ERROR(open(many)->override_expert_used_count(1), path_, "'a.expert_used_count'", "each layer");
    GgufWriter none = test::metadata();
    none.tensor("a", test::kF32, {4});
    EXPECT_ERROR(open(none)->override_expert_used_count(1), path_, "has no experts");
}

TEST_F(ModelFileTest, NamesTheFileInErrors) {
    EXPECT_ERROR(ModelFile::open(scratch_.file("none.gguf"), DirectIo::kOff), scratch_.file("none.gguf"));
    test::write_bytes(path_, {});
    EXPECT_ERROR(ModelFile::open(path_, DirectIo::kOff), path_);
    test::write_bytes(path_, std::vector<std::byte>(100));
    EXPECT_ERROR(ModelFile::open(path_, DirectIo::kOff), path_, "not a GGUF");
    GgufWriter writer;
    EXPECT_ERROR(open(writer.tensor("a", test::kF32, {4})), path_, "general.architecture");
}

TEST_F(ModelFileTest, OpensPathsWithSpacesAndUtf8AndSymlinks) {
    const std::string odd = scratch_.folder("ein Ordner \xc3\xa4\xe2\x82\xac") + "/my model \xf0\x9f\x90\x8b.gguf";
    test::moe_model().write(odd);
    EXPECT_EQ(ModelFile::open(odd, DirectIo::kVerified)->tensors().size(), 11U);
    std::filesystem::create_symlink(odd, path_);
    EXPECT_EQ(ModelFile::open(path_, DirectIo::kVerified)->tensors().size(), 11U);
}

}  // namespace
}  // namespace bmoe::gguf
