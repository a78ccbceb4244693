#include "gguf/header.h"

#include <gtest/gtest.h>

#include "gguf/value_type.h"
#include "tests/gguf/expect_error.h"
#include "tests/gguf/model_fixtures.h"

namespace bmoe::gguf {
namespace {

using test::Bytes;
using test::GgufWriter;

Header parse(const std::vector<std::byte> &bytes) { return parse_header(bytes, bytes.size(), "m.gguf").value(); }
Header parse(const GgufWriter &writer) { return parse(writer.bytes()); }

TEST(Header, HoldsMetadataAndTensors) {
    const Header header = parse(test::moe_model());
    EXPECT_EQ(header.version, 3U);
    EXPECT_EQ(header.alignment, 32U);
    EXPECT_EQ(header.text("general.architecture"), "testmoe");
    EXPECT_EQ(header.integer("testmoe.expert_used_count"), 2U);
    ASSERT_EQ(header.tensors.size(), 11U);

    const TensorInfo &first = header.tensors[0];
    EXPECT_EQ(first.name, "token_embd.weight");
    EXPECT_EQ(first.type, test::kQ8_0);
    EXPECT_EQ(first.n_dims, 2U);
    EXPECT_EQ(first.ne, (std::array<uint64_t, 4>{64, 5, 1, 1}));
    EXPECT_EQ(first.bytes, 5 * 2 * 34U);
    EXPECT_EQ(first.offset, header.data_offset);
}

TEST(Header, PlacesEveryTensorWhereItsDataIs) {
    const GgufWriter writer = test::moe_model();
    const auto bytes = writer.bytes();
    for (const TensorInfo &info : parse(bytes).tensors) {
        const auto begin = bytes.begin() + long(info.offset);
        EXPECT_EQ(std::vector(begin, begin + long(info.bytes)), test::tensor_data(info.name, info.bytes)) << info.name;
    }
}

TEST(Header, KeepsValuesAsEncoded) {
    GgufWriter writer = test::moe_model();
    const Bytes strings = Bytes().number(uint32_t(ValueType::kString)).number(uint64_t{2}).string("a").string("bc");
    writer.kv("strings", ValueType::kArray, strings);
    const Header header = parse(writer);
    ASSERT_NE(header.find("strings"), nullptr);
    EXPECT_EQ(header.find("strings")->value, strings.data);
    EXPECT_EQ(header.find("other"), nullptr);
}

TEST(Header, ReadsEveryValueType) {
    GgufWriter writer;
    writer.kv("u8", ValueType::kUint8, Bytes().number(uint8_t{200}))
        .kv("i8", ValueType::kInt8, Bytes().number(int8_t{100}))
        .kv("u16", ValueType::kUint16, Bytes().number(uint16_t{60000}))
        .kv("i16", ValueType::kInt16, Bytes().number(int16_t{-1}))
        .kv("u32", ValueType::kUint32, Bytes().number(uint32_t{4000000000}))
        .kv("i32", ValueType::kInt32, Bytes().number(int32_t{7}))
        .kv("u64", ValueType::kUint64, Bytes().number(uint64_t{1} << 63))
        .kv("i64", ValueType::kInt64, Bytes().number(int64_t{1} << 62))
        .kv("f32", ValueType::kFloat32, Bytes().number(1.5F))
        .kv("f64", ValueType::kFloat64, Bytes().number(2.5))
        .kv("bool", ValueType::kBool, Bytes().number(uint8_t{1}))
        .text("text", "");
    for (uint32_t type = 0; type <= 12; ++type) {
        const uint64_t size = value_size(ValueType{type});
        if (size == 0) continue;
        Bytes array = Bytes().number(type).number(uint64_t{3});
        array.data.resize(array.data.size() + 3 * size, std::byte{1});
        writer.kv("array of " + std::to_string(type), ValueType::kArray, array);
    }
    const Header header = parse(writer);
    EXPECT_EQ(header.integer("u8"), 200U);
    EXPECT_EQ(header.integer("i8"), 100U);
    EXPECT_EQ(header.integer("u16"), 60000U);
    EXPECT_EQ(header.integer("i16"), std::nullopt) << "negative";
    EXPECT_EQ(header.integer("u32"), 4000000000U);
    EXPECT_EQ(header.integer("i32"), 7U);
    EXPECT_EQ(header.integer("u64"), uint64_t{1} << 63);
    EXPECT_EQ(header.integer("i64"), uint64_t{1} << 62);
    EXPECT_EQ(header.integer("f32"), std::nullopt);
    EXPECT_EQ(header.integer("bool"), std::nullopt);
    EXPECT_EQ(header.integer("text"), std::nullopt);
    EXPECT_EQ(header.text("text"), "");
    EXPECT_EQ(header.text("u8"), std::nullopt);
    EXPECT_EQ(header.kv.size(), 12U + 11U);
}

TEST(Header, ReadsIntegersFromOneOrAnArray) {
    GgufWriter writer;
    writer.i32_array("array", {4, 0, 8}).i32_array("none", {}).i32_array("negative", {1, -1}).u32("one", 5);
    writer.string_array("strings", {"1"});
    const Header header = parse(writer);
    EXPECT_EQ(header.integers("array"), (std::vector<uint64_t>{4, 0, 8}));
    EXPECT_EQ(header.integers("none"), std::vector<uint64_t>());
    EXPECT_EQ(header.integers("negative"), std::nullopt);
    EXPECT_EQ(header.integers("one"), std::vector<uint64_t>{5});
    EXPECT_EQ(header.integers("strings"), std::nullopt);
    EXPECT_EQ(header.integers("missing"), std::nullopt);
}

TEST(Header, AcceptsVersion2AndOtherAlignments) {
    for (const uint32_t alignment : {1U, 8U, 64U, 4096U}) {
        GgufWriter writer = test::moe_model();
        writer.version = 2;
        writer.alignment = alignment;
        writer.u32("general.alignment", alignment);
        const Header header = parse(writer);
        EXPECT_EQ(header.version, 2U);
        EXPECT_EQ(header.alignment, alignment);
        EXPECT_EQ(header.data_offset % alignment, 0U);
    }
}

TEST(Header, AcceptsAFileWithoutTensors) {
    const auto bytes = test::metadata().bytes();
    EXPECT_EQ(parse(bytes).data_offset, bytes.size());
}

TEST(Header, AsksForMoreUntilAllIsThere) {
    const auto bytes = test::moe_model().bytes();
    const Header header = parse(bytes);
    size_t enough = 0;
    for (size_t n = 0; n <= header.data_offset; ++n) {
        const auto partial = parse_header(std::span(bytes).first(n), bytes.size(), "m.gguf");
        if (!partial) {
            ASSERT_EQ(enough, 0U) << "enough at " << enough << ", but not at " << n;
        } else if (enough == 0) {
            enough = n;
        }
    }
    EXPECT_GT(enough, header.data_offset - header.alignment);
    EXPECT_LE(enough, header.data_offset);
}

TEST(Header, IsParsedOnceForALargeTokenList) {
    GgufWriter writer = test::metadata();
    std::vector<std::string> tokens(300000, "a token of some length");
    writer.string_array("tokens", tokens);
    const auto bytes = writer.bytes();
    EXPECT_EQ(parse(bytes).find("tokens")->value.size(), 12 + tokens.size() * (8 + tokens[0].size()));
}

}  // namespace
}  // namespace bmoe::gguf
