// The first promise: streamed logits are those of the resident model, bit for bit, however the streaming is configured.
#include <gtest/gtest.h>

#include "base/error.h"
#include "cache/slot_pool.h"
#include "gates/run_model.h"

namespace bmoe::gates {
namespace {

// How much of the expert bank the cache holds.
enum class CacheSize { kNone, kMinimum, kHalf, kWhole };

struct Setting {
    CacheSize cache;
    uint32_t ubatch;
    uint32_t prompt;
    int threads;
    int lanes;
    bool direct;
    bool overlap;
    cache::PolicyKind policy;
};

constexpr int kLookahead = 4;  // where the cache holds half

constexpr auto kLru = cache::PolicyKind::kLru;
constexpr auto kReap = cache::PolicyKind::kReap;

// Every value of every axis, and the pairs most likely to go wrong together.
const Setting kSettings[] = {
    {CacheSize::kNone, 512, 65, 2, 4, true, true, kReap},   {CacheSize::kNone, 7, 64, 1, 1, true, true, kLru},
    {CacheSize::kNone, 64, 63, 2, 4, false, false, kReap},  {CacheSize::kMinimum, 512, 700, 2, 4, true, true, kReap},
    {CacheSize::kMinimum, 1, 63, 2, 4, true, true, kLru},   {CacheSize::kMinimum, 7, 65, 2, 1, true, false, kReap},
    {CacheSize::kMinimum, 64, 1, 1, 4, false, true, kReap}, {CacheSize::kHalf, 64, 700, 2, 4, true, true, kReap},
    {CacheSize::kHalf, 512, 64, 4, 4, true, true, kLru},    {CacheSize::kHalf, 1, 65, 1, 4, true, true, kReap},
    {CacheSize::kHalf, 7, 1, 2, 1, false, true, kLru},      {CacheSize::kWhole, 512, 700, 2, 4, true, true, kLru},
    {CacheSize::kWhole, 64, 65, 1, 4, true, false, kReap},  {CacheSize::kWhole, 7, 63, 2, 1, true, true, kReap},
    {CacheSize::kWhole, 1, 1, 2, 4, true, true, kReap},
};

// More threads than cores: ggml's barriers spin, so that every operator costs a time slice. Few tokens, one model.
const Setting kCrowdedSettings[] = {
    {CacheSize::kNone, 64, 63, 4, 4, false, false, kReap},
    {CacheSize::kMinimum, 7, 15, 4, 1, true, true, kReap},
    {CacheSize::kWhole, 64, 65, 4, 4, true, true, kReap},
};

uint64_t cache_bytes(const cache::Geometry &geometry, CacheSize size) {
    const uint64_t minimum = cache::SlotPool::minimum_budget(geometry);
    const uint64_t whole = cache::SlotPool::whole_budget(geometry);
    switch (size) {
        case CacheSize::kNone:
            return 0;
        case CacheSize::kMinimum:
            return minimum;
        case CacheSize::kHalf:
            return std::max(minimum, whole / 2);
        case CacheSize::kWhole:
            return whole;
    }
    return 0;
}

engine::Options options_for(const std::string &model, const Setting &setting, bool stream) {
    engine::Options options = gate_options(model, stream);
    options.n_ubatch = setting.ubatch;
    options.threads = setting.threads;
    options.io_threads = setting.lanes;
    options.overlap = setting.overlap;
    options.policy = setting.policy;
    options.lookahead = setting.cache == CacheSize::kHalf ? kLookahead : 0;
    options.direct_io = setting.direct ? io::DirectIo::kVerified : io::DirectIo::kOff;
    return options;
}

// The streaming engine with the cache size of the setting, which depends on the model's geometry.
std::unique_ptr<engine::Engine> open_streamed(const std::string &model, const Setting &setting) {
    engine::Options options = options_for(model, setting, true);
    options.on_note = [](const std::string &note) {
        EXPECT_EQ(note.find("cannot be streamed"), std::string::npos) << note;
    };
    auto engine = std::make_unique<engine::Engine>(options);
    if (engine->store() != nullptr) {
        engine->store()->set_cache(cache_bytes(engine->store()->geometry(), setting.cache), setting.policy);
    }
    return engine;
}

class Identity : public testing::TestWithParam<std::string> {};

void expect_identity(const std::string &model, const Setting &setting) {
    SCOPED_TRACE(testing::Message() << "cache " << static_cast<int>(setting.cache) << " ubatch " << setting.ubatch
                                    << " prompt " << setting.prompt << " threads " << setting.threads << " lanes "
                                    << setting.lanes << " direct " << setting.direct << " overlap " << setting.overlap);
    const Script script{setting.prompt, setting.threads > 2 ? 1U : 8U};
    engine::Engine resident(options_for(model, setting, false));
    const std::vector<float> expected = run_script(resident, script);
    const auto streamed = open_streamed(model, setting);
    ASSERT_EQ(first_difference(run_script(*streamed, script), expected), -1) << "cold";
    ASSERT_EQ(first_difference(run_script(*streamed, script), expected), -1) << "warm";
    // Not by chance because nothing was streamed.
    ASSERT_TRUE(streamed->report().streaming);
    ASSERT_GT(streamed->store()->counters().reads.bytes, 0U);
}

bool is_shard(const std::string &file) { return file.find("-of-") != std::string::npos; }

TEST_P(Identity, StreamedLogitsEqualResidentOnes) {
    // A sharded form differs in where its slices are, not in how they are computed with.
    constexpr size_t kStepForShards = 4;
    for (size_t i = 0; i < std::size(kSettings); i += is_shard(GetParam()) ? kStepForShards : 1) {
        expect_identity(folder() + "/" + GetParam(), kSettings[i]);
    }
}

TEST(IdentityCrowded, HoldsWithMoreThreadsThanCores) {
    for (const Setting &setting : kCrowdedSettings) {
        expect_identity(folder() + "/qwen3moe.gguf", setting);
    }
}

TEST_P(Identity, HoldsOverALongDecode) {
    const std::string model = folder() + "/" + GetParam();
    const Setting setting{CacheSize::kHalf, 64, 64, 2, 4, true, true, kReap};
    const Script script{setting.prompt, is_shard(GetParam()) ? 64U : 512U};
    engine::Engine resident(options_for(model, setting, false));
    const auto streamed = open_streamed(model, setting);
    EXPECT_EQ(first_difference(run_script(*streamed, script), run_script(resident, script)), -1);
}

TEST(IdentityLookahead, ReadsAheadAndIsOftenRight) {
    const Setting setting{CacheSize::kHalf, 64, 64, 2, 4, true, true, kReap};
    const auto streamed = open_streamed(folder() + "/qwen3moe.gguf", setting);
    run_script(*streamed, {setting.prompt, 256});
    const backend::LookaheadCounters counters = streamed->store()->counters().lookahead;
    EXPECT_GT(counters.guesses, 0U);
    EXPECT_GT(counters.adopted, 0U);
    EXPECT_GE(counters.started, counters.adopted);
    EXPECT_GE(counters.adopted, counters.ready);
}

INSTANTIATE_TEST_SUITE_P(Models, Identity, testing::ValuesIn(models_with_experts(Shards::kWith)),
                         [](const auto &info) { return test_name(info.param); });

}  // namespace
}  // namespace bmoe::gates
