#include "gguf/expert_layers.h"

#include <gtest/gtest.h>

#include "tests/gguf/expect_error.h"
#include "tests/gguf/model_fixtures.h"

namespace bmoe::gguf {
namespace {

using test::GgufWriter;

std::vector<Tensor> tensors_of(const GgufWriter &writer) {
    const auto bytes = writer.bytes();
    std::vector<Tensor> tensors;
    const Header header = parse_header(bytes, bytes.size(), "m.gguf").value();
    for (const TensorInfo &info : header.tensors) tensors.push_back({info, 0});
    return tensors;
}

std::vector<ExpertLayer> layers_of(const GgufWriter &writer) {
    return find_expert_layers(tensors_of(writer), "m.gguf");
}

std::vector<std::string> projections(const ExpertLayer &layer) {
    std::vector<std::string> names;
    for (const Bank &bank : layer.banks) names.push_back(bank.projection);
    return names;
}

TEST(ExpertLayers, SkipLeadingDenseLayersAndHoldBanksInFileOrder) {
    const auto layers = layers_of(test::moe_model());
    ASSERT_EQ(layers.size(), 2U);
    EXPECT_EQ(layers[0].block, 1U);
    EXPECT_EQ(layers[0].family, "exps");
    EXPECT_EQ(layers[0].n_expert, 4U);
    EXPECT_EQ(projections(layers[0]), (std::vector<std::string>{"gate", "up", "down"}));
    EXPECT_EQ(layers[1].block, 2U);
    EXPECT_EQ(projections(layers[1]), (std::vector<std::string>{"down", "gate", "up"}));
}

TEST(ExpertLayers, BanksOfDifferentTypesHaveTheirOwnSliceSizes) {
    const auto layers = layers_of(test::moe_model());
    ASSERT_EQ(layers.size(), 2U);
    const std::vector<Bank> &banks = layers[1].banks;
    EXPECT_EQ(banks[0].type, test::kQ6_K);
    EXPECT_EQ(banks[0].bytes_per_expert, 3 * 210U);
    EXPECT_EQ(banks[1].bytes_per_expert, 2 * 144U);
    EXPECT_EQ(banks[2].bytes_per_expert, 2 * 8 * 17U);
    EXPECT_EQ(layers[1].bytes_per_expert(), 3 * 210U + 2 * 144U + 2 * 8 * 17U);
}

TEST(ExpertLayers, BanksLieWhereTheirTensorsLie) {
    const GgufWriter writer = test::moe_model();
    for (const Tensor &tensor : tensors_of(writer)) {
        for (const ExpertLayer &layer : layers_of(writer)) {
            for (const Bank &bank : layer.banks) {
                if (bank.tensor != tensor.info.name) continue;
                EXPECT_EQ(bank.offset, tensor.info.offset);
                EXPECT_EQ(bank.bytes_per_expert * bank.n_expert, tensor.info.bytes);
            }
        }
    }
}

TEST(ExpertLayers, MergedGateUpIsOneBankAndBiasesScalesAndNormsAreDense) {
    const auto layers = layers_of(test::merged_gate_up_model());
    ASSERT_EQ(layers.size(), 1U);
    EXPECT_EQ(projections(layers[0]), (std::vector<std::string>{"gate_up", "down"}));
    EXPECT_EQ(layers[0].n_expert, 3U);
}

TEST(ExpertLayers, AreSortedByBlockNumber) {
    const auto layers = layers_of(test::gateless_model());
    ASSERT_EQ(layers.size(), 2U);
    EXPECT_EQ(layers[0].block, 9U);
    EXPECT_EQ(layers[1].block, 10U);
    EXPECT_EQ(projections(layers[0]), (std::vector<std::string>{"down", "up"}));
}

TEST(ExpertLayers, ChunkedExpertsAreALayerOfTheirOwn) {
    const auto layers = layers_of(test::chunked_model());
    ASSERT_EQ(layers.size(), 4U);
    for (size_t i = 0; i < layers.size(); ++i) {
        EXPECT_EQ(layers[i].block, i / 2);
        EXPECT_EQ(layers[i].family, i % 2 == 0 ? "exps" : "chexps");
        EXPECT_EQ(layers[i].n_expert, i % 2 == 0 ? 4U : 2U);
        EXPECT_EQ(projections(layers[i]), (std::vector<std::string>{"gate", "down", "up"}));
    }
}

TEST(ExpertLayers, OtherNamesAreDense) {
    GgufWriter writer = test::metadata();
    for (const std::string name :
         {"ffn_up_exps.weight", "blk.x.ffn_up_exps.weight", "blk.1.attn_up_exps.weight", "blk.1.ffn_exps.weight",
          "blk.1.ffn__exps.weight", "blk.1.ffn_up_exps", "blk.1.ffn_up_shexps.weight",
          "blk.4294967296.ffn_up_exps.weight", "blk.-1.ffn_up_exps.weight", "v.blk.1.ffn_up_exps.weight",
          "blk.1.ffn_up_exps.weight.scale"}) {
        writer.tensor(name, test::kF32, {4, 4, 4});
    }
    writer.tensor("blk.1.ffn_up_exps.weight", test::kF32, {4, 4})
        .tensor("blk.1.ffn_gate_exps.weight", test::kF32, {4, 4, 4, 2});
    EXPECT_TRUE(layers_of(writer).empty());
}

TEST(ExpertLayers, DifferentNumbersOfExpertsInALayerAreRefused) {
    GgufWriter writer = test::moe_model();
    writer.tensor("blk.1.ffn_gate_up_exps.weight", test::kF32, {4, 4, 5});
    EXPECT_ERROR(layers_of(writer), "m.gguf", "'blk.1.ffn_gate_exps.weight'", "'blk.1.ffn_gate_up_exps.weight'",
                 "4 and 5 experts");
}

TEST(ExpertLayers, AnImpossibleNumberOfExpertsIsRefused) {
    TensorInfo info;
    info.name = "blk.0.ffn_up_exps.weight";
    info.n_dims = 3;
    info.ne = {1, 1, uint64_t{1} << 32, 1};
    info.bytes = uint64_t{1} << 34;
    EXPECT_ERROR(find_expert_layers({{info, 0}}, "m.gguf"), "m.gguf", "'blk.0.ffn_up_exps.weight'", "4294967296");
}

}  // namespace
}  // namespace bmoe::gguf
