// What bmoe knows of GGUF against ggml itself.
#include <ggml.h>
#include <gguf.h>
#include <gtest/gtest.h>

#include <memory>

#include "gguf/ggml_types.h"
#include "gguf/stdio_stream.h"
#include "tests/gguf/model_fixtures.h"
#include "tests/support/scratch.h"

namespace bmoe::gguf {
namespace {

TEST(GgmlAgreement, TypeTable) {
    for (uint32_t id = 0; id < GGML_TYPE_COUNT; ++id) {
        const auto type = static_cast<ggml_type>(id);
        const auto traits = type_traits(id);
        if (ggml_blck_size(type) == 0) {
            EXPECT_FALSE(traits) << id;
            continue;
        }
        ASSERT_TRUE(traits) << id << " " << ggml_type_name(type);
        EXPECT_EQ(traits->name, ggml_type_name(type));
        EXPECT_EQ(traits->block, ggml_blck_size(type)) << traits->name;
        EXPECT_EQ(traits->block_bytes, ggml_type_size(type)) << traits->name;
    }
    EXPECT_FALSE(type_traits(GGML_TYPE_COUNT));
}

TEST(GgmlAgreement, ReadsTheStreamOfASplitModel) {
    const bmoe::test::Scratch scratch;
    const auto split = test::split(test::metadata(), test::moe_model().tensors, 3, scratch.file("m"));
    for (size_t i = 0; i < split.shards.size(); ++i) split.shards[i].write(split.names[i]);
    const auto model = ModelFile::open(split.names[0], io::DirectIo::kVerified);
    io::BulkReader reader(1);
    VirtualGguf source(*model, reader, nullptr);
    const FilePtr file = open_stream(source);

    ggml_context *tensors = nullptr;
    const std::unique_ptr<gguf_context, void (*)(gguf_context *)> read(
        gguf_init_from_file_ptr(file.get(), {true, &tensors}), gguf_free);
    const std::unique_ptr<ggml_context, void (*)(ggml_context *)> owner(tensors, ggml_free);
    ASSERT_NE(read, nullptr);
    EXPECT_EQ(gguf_find_key(read.get(), "split.count"), -1);
    EXPECT_EQ(gguf_get_n_kv(read.get()), 5);
    ASSERT_EQ(gguf_get_n_tensors(read.get()), int64_t(model->tensors().size()));
    for (const Tensor &tensor : model->tensors()) {
        const int64_t id = gguf_find_tensor(read.get(), tensor.info.name.c_str());
        ASSERT_GE(id, 0) << tensor.info.name;
        EXPECT_EQ(gguf_get_tensor_size(read.get(), id), tensor.info.bytes);
        std::vector<std::byte> data(tensor.info.bytes);
        source.read(gguf_get_data_offset(read.get()) + gguf_get_tensor_offset(read.get(), id), data.data(),
                    data.size());
        EXPECT_EQ(data, test::tensor_data(tensor.info.name, data.size()));
    }
}

}  // namespace
}  // namespace bmoe::gguf
