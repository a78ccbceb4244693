#include <gtest/gtest.h>

#include <functional>

#include "gguf/header.h"
#include "gguf/value_type.h"
#include "tests/gguf/expect_error.h"
#include "tests/gguf/model_fixtures.h"

namespace bmoe::gguf {
namespace {

using test::Bytes;
using test::GgufWriter;

void parse(const std::vector<std::byte> &bytes) { parse_header(bytes, bytes.size(), "m.gguf"); }
void parse(const GgufWriter &writer) { parse(writer.bytes()); }

GgufWriter changed(const std::function<void(GgufWriter &)> &change) {
    GgufWriter writer = test::moe_model();
    change(writer);
    return writer;
}

TEST(MalformedHeader, NotGguf) {
    EXPECT_ERROR(parse(std::vector<std::byte>()), "m.gguf", "magic");
    EXPECT_ERROR(parse(changed([](auto &w) { w.magic = "GGML"; })), "m.gguf", "is not a GGUF file",
                 "download it again");
}

TEST(MalformedHeader, Version) {
    EXPECT_ERROR(parse(changed([](auto &w) { w.version = 0; })), "m.gguf", "version 0");
    EXPECT_ERROR(parse(changed([](auto &w) { w.version = 1; })), "m.gguf", "version 1", "convert");
    EXPECT_ERROR(parse(changed([](auto &w) { w.version = 4; })), "m.gguf", "version 4");
    EXPECT_ERROR(parse(changed([](auto &w) { w.version = 0x03000000; })), "m.gguf", "big-endian");
}

TEST(MalformedHeader, Counts) {
    for (const uint64_t count : {uint64_t{1} << 20, uint64_t{1} << 61, ~uint64_t{0}}) {
        EXPECT_ERROR(parse(changed([&](auto &w) { w.n_kv = count; })), "m.gguf", "metadata keys",
                     std::to_string(count));
        EXPECT_ERROR(parse(changed([&](auto &w) { w.n_tensors = count; })), "m.gguf", "tensors", std::to_string(count));
    }
}

TEST(MalformedHeader, CutAnywhere) {
    const auto bytes = test::moe_model().bytes();
    const uint64_t data = parse_header(bytes, bytes.size(), "m.gguf")->data_offset;
    for (size_t n = 0; n < data; ++n) {
        EXPECT_ERROR(parse(std::vector(bytes.begin(), bytes.begin() + long(n))), "m.gguf: ", "compare its size",
                     "download it again");
    }
}

TEST(MalformedHeader, CutDataNamesTheTensorAndTheMissingBytes) {
    auto bytes = test::moe_model().bytes();
    const Header header = *parse_header(bytes, bytes.size(), "m.gguf");
    const TensorInfo &last = header.tensors.back();
    bytes.resize(last.offset + last.bytes - 5);
    EXPECT_ERROR(parse(bytes), "m.gguf", "5 bytes too short", "'output_norm.weight'", std::to_string(last.offset),
                 "0 further", "compare its size", "download it again");

    const TensorInfo &bank = header.tensors[header.tensors.size() - 2];
    bytes.resize(bank.offset + bank.bytes - 7);
    EXPECT_ERROR(parse(bytes), std::to_string(last.offset + last.bytes - bytes.size()) + " bytes too short",
                 "'blk.2.ffn_up_exps.weight'", "7 bytes of this tensor", "1 further");
}

TEST(MalformedHeader, MissingPaddingAtTheEndIsNoFault) {
    auto bytes = test::moe_model().bytes();
    const Header header = *parse_header(bytes, bytes.size(), "m.gguf");
    bytes.resize(header.tensors.back().offset + header.tensors.back().bytes);
    EXPECT_NO_THROW(parse(bytes));
}

TEST(MalformedHeader, Keys) {
    EXPECT_ERROR(parse(changed([](auto &w) { w.u32("general.name", 1); })), "m.gguf", "'general.name'", "twice");
    EXPECT_ERROR(parse(changed([](auto &w) { w.u32("", 1); })), "m.gguf", "key 5");
    EXPECT_ERROR(parse(changed([](auto &w) { w.u32(std::string("a\0b", 3), 1); })), "m.gguf", "'a\\x00b'");
    EXPECT_ERROR(parse(changed([](auto &w) { w.u32(std::string(70000, 'k'), 1); })), "m.gguf", "70000");
    EXPECT_ERROR(parse(changed([](auto &w) { w.kv("k", ValueType{13}, {}); })), "m.gguf", "'k'", "type 13");
}

TEST(MalformedHeader, Strings) {
    for (const uint64_t length : {uint64_t{1} << 32, uint64_t{1} << 63, ~uint64_t{0}}) {
        const Bytes value = Bytes().number(length).raw("short");
        EXPECT_ERROR(parse(changed([&](auto &w) { w.kv("k", ValueType::kString, value); })), "m.gguf", "'k'",
                     std::to_string(length));
        const Bytes array =
            Bytes().number(uint32_t(ValueType::kString)).number(uint64_t{1}).number(length).raw("short");
        EXPECT_ERROR(parse(changed([&](auto &w) { w.kv("k", ValueType::kArray, array); })), "m.gguf", "'k'",
                     std::to_string(length));
    }
}

TEST(MalformedHeader, Arrays) {
    const auto array = [](ValueType type, uint64_t count) {
        return changed([&](auto &w) { w.kv("k", ValueType::kArray, Bytes().number(uint32_t(type)).number(count)); });
    };
    EXPECT_ERROR(parse(array(ValueType::kArray, 1)), "m.gguf", "'k'", "array of arrays");
    EXPECT_ERROR(parse(array(ValueType{99}, 1)), "m.gguf", "'k'", "type 99");
    for (const uint64_t count : {uint64_t{1} << 40, uint64_t{1} << 61, ~uint64_t{0}}) {
        EXPECT_ERROR(parse(array(ValueType::kUint64, count)), "m.gguf", "'k'");
        EXPECT_ERROR(parse(array(ValueType::kInt8, count)), "m.gguf", "'k'");
        EXPECT_ERROR(parse(array(ValueType::kString, count)), "m.gguf", "'k'");
    }
}

TEST(MalformedHeader, Alignment) {
    for (const uint32_t alignment : {0U, 3U, 48U}) {
        EXPECT_ERROR(parse(changed([&](auto &w) { w.u32("general.alignment", alignment); })), "m.gguf",
                     "general.alignment is " + std::to_string(alignment));
    }
    EXPECT_ERROR(parse(changed([](auto &w) { w.u16("general.alignment", 32); })), "m.gguf", "general.alignment",
                 "uint32");
    EXPECT_ERROR(parse(changed([](auto &w) { w.text("general.alignment", "32"); })), "m.gguf", "general.alignment");
}

TEST(MalformedHeader, TensorNames) {
    EXPECT_NO_THROW(parse(changed([](auto &w) { w.tensor(std::string(63, 'n'), test::kF32, {1}); })));
    EXPECT_ERROR(parse(changed([](auto &w) { w.tensor(std::string(64, 'n'), test::kF32, {1}); })), "m.gguf",
                 "tensor 11", "64 bytes");
    EXPECT_ERROR(parse(changed([](auto &w) { w.tensor("", test::kF32, {1}); })), "m.gguf", "tensor 11");
    EXPECT_ERROR(parse(changed([](auto &w) { w.tensor(std::string("a\0", 2), test::kF32, {1}); })), "'a\\x00'");
    EXPECT_ERROR(parse(changed([](auto &w) { w.tensor("output_norm.weight", test::kF32, {1}); })), "m.gguf",
                 "'output_norm.weight'", "twice");
}

TEST(MalformedHeader, Shapes) {
    const auto shape = [](uint32_t type, std::vector<uint64_t> ne) {
        return changed([&](auto &w) { w.tensor("t", type, std::move(ne)); });
    };
    EXPECT_ERROR(parse(shape(test::kF32, {})), "m.gguf", "'t'", "0 dimensions");
    EXPECT_ERROR(parse(shape(test::kF32, {1, 1, 1, 1, 1})), "m.gguf", "'t'", "5 dimensions");
    EXPECT_ERROR(parse(shape(test::kF32, {4, 0})), "m.gguf", "'t'", "dimension of 0");
    EXPECT_ERROR(parse(shape(test::kQ4_K, {32, 8})), "m.gguf", "'t'", "q4_K", "rows of 32", "256");
    const uint64_t half = uint64_t{1} << 32;
    for (const auto &ne :
         std::vector<std::vector<uint64_t>>{{half, half}, {half, half / 2}, {~uint64_t{0}}, {half, half, half}}) {
        EXPECT_ERROR(parse(shape(test::kF32, ne)), "m.gguf", "'t'", "impossible shape");
    }
    EXPECT_ERROR(parse(shape(test::kF32, {half, half / 4})), "m.gguf", "'t'");
}

TEST(MalformedHeader, TensorTypes) {
    for (const uint32_t type : {4U, 5U, 31U, 36U, 1000U, ~0U}) {
        EXPECT_ERROR(parse(changed([&](auto &w) { w.tensor("t", type, {256}); })), "m.gguf", "'t'",
                     "type " + std::to_string(type));
    }
}

TEST(MalformedHeader, Offsets) {
    const auto at = [](uint64_t offset) { return changed([&](auto &w) { w.tensor("t", test::kF32, {64}, offset); }); };
    EXPECT_ERROR(parse(at(33)), "m.gguf", "'t'", "33", "alignment 32");
    EXPECT_ERROR(parse(at(~uint64_t{0} - 31)), "m.gguf", "'t'", "impossible");
    EXPECT_ERROR(parse(at(uint64_t{1} << 62)), "m.gguf", "'t'", "too short");
    EXPECT_ERROR(parse(at(0)), "m.gguf", "'t'", "'token_embd.weight'", "overlap");
    EXPECT_ERROR(parse(at(32)), "m.gguf", "'t'", "'token_embd.weight'", "overlap");
}

TEST(MalformedHeader, TensorsInAnyOrderWithGapsAreNoFault) {
    GgufWriter writer = test::metadata();
    writer.tensor("a", test::kF32, {8}, 64).tensor("b", test::kF32, {8}, 0).tensor("c", test::kF32, {8}, 160);
    writer.trailing_zeros = 512;
    EXPECT_NO_THROW(parse(writer));
}

}  // namespace
}  // namespace bmoe::gguf
