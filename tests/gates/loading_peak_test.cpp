#include "engine/loading_peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/llama_handles.h"
#include "gguf/model_file.h"
#include "gguf/stdio_stream.h"
#include "gguf/virtual_gguf.h"
#include "io/bulk_reader.h"

namespace bmoe::engine {
namespace {

TEST(LoadingPeak, IsWhereAStagedWeightIsThereTwice) {
    EXPECT_EQ(most_while_loading({}), 0U);
    EXPECT_EQ(most_while_loading({{false, {{5, 5}, {7, 7}}}}), 12U);
    EXPECT_EQ(most_while_loading({{true, {{7, 7}, {5, 5}}}}), 17U);
    EXPECT_EQ(most_while_loading({{true, {{7, 7}, {1, 1}}}}), 14U);
}

TEST(LoadingPeak, CountsTheWeightsOfTheTypesBefore) {
    // Of all, the second type's largest is the third, but what the first holds is there by then.
    EXPECT_EQ(most_while_loading({{true, {{6, 6}, {5, 5}}}, {true, {{4, 4}}}, {false, {{2, 2}}}}), 19U);
    // The last type is read to where it stays.
    EXPECT_EQ(most_while_loading({{true, {{2, 2}}}, {false, {{9, 9}, {1, 1}}}}), 12U);
}

TEST(LoadingPeak, CountsWhatIsHeldNotWhatWasRead) { EXPECT_EQ(most_while_loading({{true, {{4, 6}, {3, 5}}}}), 14U); }

// The sizes of the weights, in the order of `all`.
std::vector<uint64_t> sizes(const std::vector<LoadedWeights> &all, bool staged) {
    std::vector<uint64_t> bytes;
    for (const LoadedWeights &weights : all) {
        for (const LoadedWeights::Weight &weight : weights.weights) {
            if (weights.staged == staged) {
                bytes.push_back(weight.file_bytes);
            }
        }
    }
    return bytes;
}

// With all weights in memory of its own.
ModelPtr load(const gguf::ModelFile &file, bool repack, bool only_measured, const gguf::VirtualGguf::Skip &note) {
    io::BulkReader reader(1);
    gguf::VirtualGguf source(file, reader, note);
    const gguf::FilePtr stream = gguf::open_stream(source);
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.lazy_mode = LLAMA_LAZY_MODE_OFF;
    params.use_extra_bufts = repack;
    params.no_alloc = only_measured;
    return ModelPtr(llama_model_load_from_file_ptr(stream.get(), params));
}

class LoadingOrder : public testing::TestWithParam<const char *> {};

TEST_P(LoadingOrder, IsThatOfLlamaCpp) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    const auto file = gguf::ModelFile::open(std::string(BMOE_TINY_MODELS "/") + GetParam(), io::DirectIo::kOff);
    for (const bool repack : {false, true}) {
        std::vector<uint64_t> read;
        const auto note = [&](const gguf::Tensor &tensor, const void *) {
            read.push_back(tensor.info.bytes);
            return false;
        };
        const ModelPtr measured = load(*file, repack, true, note);
        ASSERT_NE(measured, nullptr);
        EXPECT_EQ(read.size(), 0U);
        const std::vector<LoadedWeights> expected = weights_to_load(measured.get());
        ASSERT_NE(load(*file, repack, false, note), nullptr);

        const std::vector<uint64_t> staged = sizes(expected, true);
        EXPECT_TRUE(repack || staged.empty());
        ASSERT_GE(read.size(), staged.size());
        const auto others = read.begin() + static_cast<ptrdiff_t>(staged.size());
        EXPECT_EQ(std::vector<uint64_t>(read.begin(), others), staged);
        // The others are read to where they stay, in any order.
        std::vector<uint64_t> expected_others = sizes(expected, false);
        std::sort(expected_others.begin(), expected_others.end());
        std::sort(others, read.end());
        EXPECT_EQ(std::vector<uint64_t>(others, read.end()), expected_others);
    }
}

INSTANTIATE_TEST_SUITE_P(LoadingPeak, LoadingOrder,
                         testing::Values("qwen3moe_legacy.gguf", "qwen3moe_kquants.gguf", "gemma4.gguf", "qwen3.gguf"),
                         [](const auto &info) {
                             const std::string file = info.param;
                             return file.substr(0, file.find('.'));
                         });

}  // namespace
}  // namespace bmoe::engine
