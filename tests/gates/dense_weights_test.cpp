// Dense weights in the page cache: the same logits, and nothing of the file copied.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "engine/dense_residency.h"
#include "gates/run_model.h"
#include "tests/support/scratch.h"

namespace bmoe::gates {
namespace {

namespace fs = std::filesystem;
using engine::DenseWeights;

engine::Options options_for(const std::string &model, DenseWeights dense) {
    engine::Options options = gate_options(model, true);
    options.n_ubatch = 64;
    options.threads = 1;
    options.dense_weights = dense;
    return options;
}

class DenseWeightsTest : public testing::TestWithParam<std::string> {};

TEST_P(DenseWeightsTest, InThePageCacheGiveTheLogitsOfTheResidentModel) {
    const std::string model = folder() + "/" + GetParam();
    const Script script{70, 4};
    engine::Options plain = gate_options(model, false);
    plain.n_ubatch = 64;
    plain.threads = 1;
    engine::Engine resident(plain);
    const std::vector<float> expected = run_script(resident, script);
    for (const DenseWeights dense : {DenseWeights::kMmap, DenseWeights::kWarm}) {
        engine::Options options = options_for(model, dense);
        options.repack = true;  // what the file has cannot be rearranged
        engine::Engine streamed(options);
        EXPECT_EQ(first_difference(run_script(streamed, script), expected), -1) << static_cast<int>(dense);
        EXPECT_TRUE(streamed.report().streaming);
        EXPECT_TRUE(streamed.report().dense_mapped);
        EXPECT_GT(streamed.store()->counters().reads.bytes, 0U);
        // All, or fewer by layers for speculation, which are not loaded.
        EXPECT_GT(streamed.report().expert_bytes, 0U);
        EXPECT_LE(streamed.report().expert_bytes, streamed.file().expert_bytes());
    }
}

INSTANTIATE_TEST_SUITE_P(Models, DenseWeightsTest, testing::ValuesIn(models_with_experts(Shards::kWith)),
                         [](const auto &info) { return test_name(info.param); });

TEST(DenseResidency, IsWholeForEveryPlaceOnceTheModelHasRun) {
    const std::string model = folder() + "/qwen3moe.gguf";
    for (const DenseWeights dense : {DenseWeights::kAnon, DenseWeights::kMmap, DenseWeights::kWarm}) {
        for (const bool repack : {false, true}) {
            engine::Options options = options_for(model, dense);
            options.repack = repack;
            engine::Engine engine(options);
            run_script(engine, {8, 1});
            EXPECT_DOUBLE_EQ(engine::dense_resident_fraction(engine), 1) << static_cast<int>(dense) << repack;
        }
    }
    engine::Options mapped = gate_options(model, false);
    engine::Engine plain(mapped);
    run_script(plain, {8, 1});
    EXPECT_DOUBLE_EQ(engine::dense_resident_fraction(plain), 1);
}

TEST(DenseResidency, IsUnknownForAFileThatBelongsToAnother) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can give a file away";
    }
    const bmoe::test::Scratch scratch;
    const std::string model = scratch.file("m.gguf");
    fs::copy_file(folder() + "/qwen3moe.gguf", model);
    engine::Engine engine(options_for(model, DenseWeights::kMmap));
    constexpr uid_t kNobody = 65534;
    ASSERT_EQ(chown(model.c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(chmod(model.c_str(), 0444), 0);
    constexpr uid_t kOther = 65533;
    ASSERT_EQ(seteuid(kOther), 0);
    const double told = engine::dense_resident_fraction(engine);
    ASSERT_EQ(seteuid(0), 0);
    EXPECT_EQ(told, -1);
}

}  // namespace
}  // namespace bmoe::gates
