#include "gguf/model_mapping.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/gguf/model_fixtures.h"
#include "tests/support/scratch.h"

namespace bmoe::gguf {
namespace {

void expect_all_dense_tensors(const ModelFile &model) {
    const ModelMapping mapping(model);
    for (const Tensor &tensor : model.tensors()) {
        if (tensor.info.name.find("_exps.weight") != std::string::npos) {
            continue;
        }
        const std::vector<std::byte> expected = test::tensor_data(tensor.info.name, tensor.info.bytes);
        const std::byte *data = mapping.find(tensor.info.name);
        ASSERT_NE(data, nullptr);
        EXPECT_EQ(data, mapping.data(tensor));
        EXPECT_TRUE(mapping.sweep(tensor).ok());
        EXPECT_EQ(std::memcmp(data, expected.data(), expected.size()), 0) << tensor.info.name;
        EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 32, 0U);
    }
    EXPECT_EQ(mapping.find("no such tensor"), nullptr);
}

TEST(ModelMapping, HasTheDenseTensorsOfAModel) {
    const bmoe::test::Scratch scratch;
    test::moe_model().write(scratch.file("m.gguf"));
    expect_all_dense_tensors(*ModelFile::open(scratch.file("m.gguf"), io::DirectIo::kOff));
}

TEST(ModelMapping, HasTheDenseTensorsOfASplitModel) {
    const bmoe::test::Scratch scratch;
    const test::Split split = test::split(test::metadata(), test::moe_model().tensors, 3, scratch.file("m"));
    for (size_t i = 0; i < split.shards.size(); ++i) {
        split.shards[i].write(split.names[i]);
    }
    expect_all_dense_tensors(*ModelFile::open(split.names[1], io::DirectIo::kOff));
}

}  // namespace
}  // namespace bmoe::gguf
