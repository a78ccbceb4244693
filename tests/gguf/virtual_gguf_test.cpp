#include "gguf/virtual_gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "tests/gguf/expect_error.h"
#include "tests/gguf/model_fixtures.h"
#include "tests/support/scratch.h"

namespace bmoe::gguf {
namespace {

using io::DirectIo;
using test::GgufWriter;
using test::TensorSpec;

constexpr std::byte kPattern{0xa5};

std::vector<std::byte> read_all(VirtualGguf &stream) {
    std::vector<std::byte> bytes(stream.size(), kPattern);
    EXPECT_EQ(stream.read(0, bytes.data(), bytes.size()), bytes.size()) << stream.error();
    return bytes;
}

bool is_expert(const Tensor &tensor, const void *) {
    return tensor.info.name.find("_exps.weight") != std::string::npos;
}

class VirtualGgufTest : public testing::Test {
  protected:
    std::unique_ptr<ModelFile> open(const GgufWriter &writer) {
        writer.write(scratch_.file("m.gguf"));
        return ModelFile::open(scratch_.file("m.gguf"), DirectIo::kVerified);
    }
    std::unique_ptr<ModelFile> open_split(const GgufWriter &metadata, const std::vector<TensorSpec> &tensors) {
        const test::Split split = test::split(metadata, tensors, 3, scratch_.file("m"));
        for (size_t i = 0; i < 3; ++i) split.shards[i].write(split.names[i]);
        return ModelFile::open(split.names[0], DirectIo::kVerified);
    }

    bmoe::test::Scratch scratch_;
    io::BulkReader reader_{2, 4096};
};

TEST_F(VirtualGgufTest, AWholeModelIsServedAsItIs) {
    for (const GgufWriter &writer : {test::moe_model(), test::merged_gate_up_model(), test::gateless_model(),
                                     test::chunked_model(), test::metadata()}) {
        const auto model = open(writer);
        VirtualGguf stream(*model, reader_, nullptr);
        EXPECT_EQ(read_all(stream), writer.bytes());
        EXPECT_EQ(stream.served_bytes(), model->dense_bytes() + model->expert_bytes());
        EXPECT_EQ(stream.skipped_bytes(), 0U);
    }
}

TEST_F(VirtualGgufTest, ASplitModelIsServedAsTheWholeOne) {
    const GgufWriter whole = test::moe_model();
    const auto model = open_split(test::metadata(), whole.tensors);
    VirtualGguf stream(*model, reader_, nullptr);
    EXPECT_EQ(read_all(stream), whole.bytes());
}

TEST_F(VirtualGgufTest, KeepsTheAlignmentAndTheVersionOfTheFirstShard) {
    GgufWriter whole = test::moe_model();
    whole.alignment = 256;
    whole.version = 2;
    whole.u32("general.alignment", 256);
    GgufWriter metadata = test::metadata();
    metadata.alignment = 256;
    metadata.version = 2;
    metadata.u32("general.alignment", 256);
    const auto model = open_split(metadata, whole.tensors);  // the other shards are aligned to 32
    VirtualGguf stream(*model, reader_, nullptr);
    EXPECT_EQ(read_all(stream), whole.bytes());
}

TEST_F(VirtualGgufTest, ClosesGapsAndAppendsMissingPadding) {
    GgufWriter writer = test::metadata();
    writer.tensor("b", test::kF32, {3}, 128).tensor("a", test::kF32, {5}, 64).tensor("c", test::kF32, {64}, 160);
    writer.trailing_zeros = 512;
    const auto gapped = open(writer);
    VirtualGguf stream(*gapped, reader_, nullptr);
    const auto bytes = read_all(stream);
    const Header header = parse_header(bytes, bytes.size(), "stream").value();
    EXPECT_EQ(header.tensors[1].offset, header.tensors[0].offset + 32);
    EXPECT_EQ(header.tensors[2].offset, header.tensors[0].offset + 64);
    for (const TensorInfo &info : header.tensors) {
        const Tensor *tensor = gapped->find(info.name);
        const auto file = test::read_bytes(scratch_.file("m.gguf"));
        EXPECT_TRUE(std::equal(bytes.begin() + long(info.offset), bytes.begin() + long(info.offset + info.bytes),
                               file.begin() + long(tensor->info.offset)));
    }

    auto cut = test::moe_model().bytes();
    const auto whole = cut;
    cut.resize(cut.size() - 20);  // the padding after 12 bytes
    test::write_bytes(scratch_.file("cut.gguf"), cut);
    const auto model = ModelFile::open(scratch_.file("cut.gguf"), DirectIo::kVerified);
    VirtualGguf padded(*model, reader_, nullptr);
    EXPECT_EQ(read_all(padded), whole);
}

TEST_F(VirtualGgufTest, RangesOfAnySizeAtAnyPosition) {
    const GgufWriter writer = test::moe_model();
    const auto model = open(writer);
    const auto whole = writer.bytes();
    VirtualGguf stream(*model, reader_, nullptr);
    std::mt19937 random(1);
    for (int i = 0; i < 500; ++i) {
        const size_t begin = random() % whole.size();
        const size_t n = random() % (i % 2 == 0 ? 100 : 20000);
        std::vector<std::byte> bytes(n + 1, kPattern);
        const size_t expected = std::min(n, whole.size() - begin);
        ASSERT_EQ(stream.read(begin, bytes.data(), n), expected);
        ASSERT_TRUE(std::equal(bytes.begin(), bytes.begin() + long(expected), whole.begin() + long(begin)));
        ASSERT_EQ(bytes[expected], kPattern) << "nothing is written after the range";
    }
    std::byte none{};
    EXPECT_EQ(stream.read(whole.size(), &none, 1), 0U);
    EXPECT_EQ(stream.read(~uint64_t{0}, &none, 1), 0U);
    EXPECT_EQ(stream.read(0, &none, 0), 0U);
    EXPECT_TRUE(stream.error().empty());
}

TEST_F(VirtualGgufTest, SkippedDataLeavesTheDestinationUntouched) {
    const GgufWriter writer = test::moe_model();
    const auto model = open(writer);
    VirtualGguf stream(*model, reader_, is_expert);
    auto expected = writer.bytes();
    for (const Tensor &tensor : model->tensors()) {
        if (is_expert(tensor, nullptr)) {
            std::fill_n(expected.begin() + long(tensor.info.offset), tensor.info.bytes, kPattern);
        }
    }
    EXPECT_EQ(read_all(stream), expected);
    EXPECT_EQ(stream.skipped_bytes(), model->expert_bytes());
    EXPECT_EQ(stream.served_bytes(), model->dense_bytes());
}

TEST_F(VirtualGgufTest, AsksOnceForARangeOfATensorWithItsDestination) {
    const auto model = open(test::moe_model());
    std::vector<std::pair<std::string, const void *>> asked;
    VirtualGguf stream(*model, reader_, [&](const Tensor &tensor, const void *dst) {
        asked.emplace_back(tensor.info.name, dst);
        return true;
    });
    const Tensor *bank = model->find("blk.1.ffn_up_exps.weight");
    std::vector<std::byte> bytes(stream.size());
    EXPECT_EQ(stream.read(bank->info.offset + 10, bytes.data(), 100), 100U);
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_EQ(asked[0].first, bank->info.name);
    EXPECT_EQ(asked[0].second, bytes.data());

    asked.clear();
    EXPECT_EQ(stream.read(0, bytes.data(), bytes.size()), bytes.size());
    ASSERT_EQ(asked.size(), model->tensors().size());
    for (size_t i = 0; i < asked.size(); ++i) {
        EXPECT_EQ(asked[i].first, model->tensors()[i].info.name);
        EXPECT_EQ(asked[i].second, bytes.data() + model->tensors()[i].info.offset);
    }
}

TEST_F(VirtualGgufTest, AFailedReadKeepsTheReasonAndEndsTheStream) {
    const auto model = open(test::moe_model());
    VirtualGguf stream(*model, reader_, nullptr);
    const Tensor &last = model->tensors().back();
    std::filesystem::resize_file(scratch_.file("m.gguf"), last.info.offset);  // under the open file

    std::vector<std::byte> bytes(stream.size());
    const size_t got = stream.read(0, bytes.data(), bytes.size());
    EXPECT_LT(got, bytes.size());
    EXPECT_GE(got, model->metadata().data_offset);
    test::expect_parts(stream.error(), {"tensor 'token_embd.weight'", "m.gguf"});
    const std::string first = stream.error();
    EXPECT_EQ(stream.read(0, bytes.data(), 16), 0U);
    EXPECT_EQ(stream.error(), first);
}

TEST_F(VirtualGgufTest, AnExceptionOfSkipIsKept) {
    const auto model = open(test::moe_model());
    VirtualGguf stream(*model, reader_, [](const Tensor &, const void *) -> bool { throw Error("no such layer"); });
    std::vector<std::byte> bytes(stream.size());
    EXPECT_EQ(stream.read(0, bytes.data(), bytes.size()), model->metadata().data_offset);
    test::expect_parts(stream.error(), {"token_embd.weight", "m.gguf", "no such layer"});
}

}  // namespace
}  // namespace bmoe::gguf
