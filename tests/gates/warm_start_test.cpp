// What one run leaves for the next: a warmer start, never another answer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cache/slot_pool.h"
#include "engine/cache_size.h"
#include "gates/run_model.h"
#include "tests/support/scratch.h"

namespace bmoe::gates {
namespace {

namespace fs = std::filesystem;

const std::string kModel = std::string(BMOE_TINY_MODELS) + "/qwen3moe.gguf";
const std::string kOtherModel = std::string(BMOE_TINY_MODELS) + "/gpt-oss.gguf";

class WarmStartTest : public testing::Test {
  protected:
    std::unique_ptr<engine::Engine> open(const std::string &model = kModel) {
        notes_.clear();
        engine::Options options = gate_options(model, true);
        const cache::Geometry geometry = engine::Engine(options).store()->geometry();
        options.cache_bytes = (cache::SlotPool::minimum_budget(geometry) + cache::SlotPool::whole_budget(geometry)) / 2;
        options.policy = policy_;
        options.warm_start = true;
        options.profile = profile_;
        options.on_note = [this](const std::string &note) { notes_.push_back(note); };
        return std::make_unique<engine::Engine>(options);
    }
    // Runs the script through a streamed engine, to its end; all logits. One token more than the script goes through
    // Engine::decode.
    std::vector<float> run(engine::Engine &engine) {
        std::vector<float> logits = run_script(engine, script_);
        const llama_token token = 65;
        engine.decode({&token, 1});
        return logits;
    }
    static std::vector<float> resident(const Script &script) {
        engine::Engine engine(gate_options(kModel, false));
        return run_script(engine, script);
    }
    // The only note, which must name the profile.
    std::string note() const {
        EXPECT_EQ(notes_.size(), 1U);
        if (notes_.empty()) {
            return {};
        }
        EXPECT_NE(notes_.front().find(profile_), std::string::npos) << notes_.front();
        return notes_.front();
    }

    bmoe::test::Scratch scratch_;
    std::string profile_ = scratch_.file("a.profile");
    std::vector<std::string> notes_;
    cache::PolicyKind policy_ = cache::PolicyKind::kReap;
    Script script_{40, 8};
};

TEST_F(WarmStartTest, TheSecondRunHitsFromTheFirstTokenAndAnswersTheSame) {
    const std::vector<float> expected = resident(script_);
    {
        const auto cold = open();
        EXPECT_EQ(first_difference(run(*cold), expected), -1);
        EXPECT_EQ(cold->store()->warmed_bytes(), 0U);
    }
    EXPECT_TRUE(fs::exists(profile_));
    {
        const auto warm = open();
        warm->store()->pool().drain();  // let it read all that it wants to
        const backend::StoreCounters before = warm->store()->counters();
        const Script first_token{1, 0};
        EXPECT_EQ(first_difference(run_script(*warm, first_token), resident(first_token)), -1);
        EXPECT_GT(warm->store()->counters().since(before).cache.hits, 0U);
        EXPECT_GT(warm->store()->warmed_bytes(), 0U);
        EXPECT_EQ(first_difference(run(*warm), expected), -1);
    }
    EXPECT_EQ(first_difference(run(*open()), expected), -1) << "not drained: the first visit comes when it comes";
    EXPECT_TRUE(notes_.empty()) << notes_.front();
}

TEST_F(WarmStartTest, WhatWasLearnedOutlivesACacheOfNothing) {
    const std::vector<float> expected = resident(script_);
    auto engine = open();
    const uint64_t bytes = engine->report().plan.slots;
    EXPECT_EQ(first_difference(run(*engine), expected), -1);
    const std::vector<float> learned = engine->store()->learned_frequencies();
    EXPECT_FALSE(learned.empty());
    engine::resize_cache(*engine, 0, policy_, {});
    EXPECT_EQ(first_difference(run(*engine), expected), -1);
    EXPECT_EQ(engine->store()->learned_frequencies(), learned);

    engine::resize_cache(*engine, bytes, policy_, {});
    EXPECT_EQ(engine->store()->learned_frequencies(), learned);
    engine->store()->pool().drain();
    const backend::StoreCounters before = engine->store()->counters();
    const Script first_token{1, 0};
    EXPECT_EQ(first_difference(run_script(*engine, first_token), resident(first_token)), -1);
    EXPECT_GT(engine->store()->counters().since(before).cache.hits, 0U);
    EXPECT_GT(engine->store()->warmed_bytes(), 0U);
    EXPECT_EQ(first_difference(run(*engine), expected), -1);

    engine::resize_cache(*engine, 0, policy_, {});
    engine.reset();
    EXPECT_TRUE(fs::exists(profile_)) << "it is saved without a cache too";
    EXPECT_TRUE(notes_.empty()) << notes_.front();
}

TEST_F(WarmStartTest, NothingIsWrittenWithoutADecodeOrWithoutAPolicyThatLearns) {
    open().reset();
    EXPECT_FALSE(fs::exists(profile_));
    policy_ = cache::PolicyKind::kLru;
    run(*open());
    EXPECT_FALSE(fs::exists(profile_));
    EXPECT_NE(note().find("--cache-policy reap"), std::string::npos);
}

TEST_F(WarmStartTest, ADamagedProfileIsIgnoredAndReplaced) {
    const std::vector<float> expected = resident(script_);
    run(*open());
    fs::resize_file(profile_, fs::file_size(profile_) - 1);
    {
        const auto engine = open();
        EXPECT_EQ(first_difference(run(*engine), expected), -1);
        EXPECT_EQ(engine->store()->warmed_bytes(), 0U);
    }
    EXPECT_NE(note().find("damaged"), std::string::npos);
    open().reset();
    EXPECT_TRUE(notes_.empty()) << notes_.front();
}

TEST_F(WarmStartTest, TheProfileOfAnotherModelIsIgnoredAndKept) {
    run(*open(kOtherModel));
    const auto written = fs::last_write_time(profile_);
    {
        const auto engine = open();
        run(*engine);
        EXPECT_EQ(engine->store()->warmed_bytes(), 0U);
    }
    EXPECT_NE(note().find("another model"), std::string::npos);
    EXPECT_EQ(fs::last_write_time(profile_), written);
    open(kOtherModel).reset();
    EXPECT_TRUE(notes_.empty()) << notes_.front();
}

TEST_F(WarmStartTest, AFolderThatCannotBeWrittenIsANote) {
    profile_ = scratch_.file("missing/a.profile");
    run(*open());
    EXPECT_NE(note().find("cannot write"), std::string::npos);
    std::ofstream(scratch_.file("missing")).flush();  // a file where a folder should be
    run(*open());
    EXPECT_NE(note().find("cannot read"), std::string::npos);
}

}  // namespace
}  // namespace bmoe::gates
