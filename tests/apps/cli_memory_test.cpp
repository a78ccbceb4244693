// Who gets the memory, as a user sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <regex>
#include <string>

#include "tests/apps/run_command.h"

namespace bmoe::apps::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kDemo = BMOE_DEMO_MODEL;
const std::string kTiny = BMOE_TINY_MODELS;

Finished run(const std::string &flags, const std::string &model = kDemo) {
    return run_command(quoted(BMOE_CLI) + " -m " + quoted(model) +
                       " --no-warm-start -t 1 -c 512 -n 8 -p 'And the king said unto' " + flags);
}

// The number that the pattern's group matches in a run's messages; -1 without a match.
int64_t number_in(const Finished &finished, const std::string &pattern) {
    std::smatch found;
    return std::regex_search(finished.err, found, std::regex(pattern)) ? std::stoll(found[1]) : -1;
}

int64_t peak_rss(const Finished &finished) { return number_in(finished, "peak RSS ([0-9]+) MiB"); }

int64_t planned(const Finished &finished) { return number_in(finished, "memory: .* = ([0-9]+) MiB"); }

constexpr const char *kLeastRam = "the smallest --ram that works here is ([0-9]+)M";

TEST(CliStreamMode, RunsAModelThatFitsResidentAndSaysWhy) {
    const Finished resident = run("--no-repack");
    EXPECT_EQ(resident.status, 0) << resident.err;
    EXPECT_THAT(resident.err, ContainsRegex("not streaming: the model needs [0-9]+ MiB with its context and a reserve, "
                                            "and there are [0-9]+ MiB .*the whole model in memory"));
    EXPECT_THAT(resident.err,
                AllOf(ContainsRegex("memory: dense .* experts 1[0-9] MiB = "), Not(HasSubstr("moe-stream:"))));
    EXPECT_LE(peak_rss(resident), planned(resident));
    const Finished off = run("--no-repack --moe-stream off");
    EXPECT_EQ(off.out, resident.out);
    EXPECT_THAT(off.err,
                AllOf(HasSubstr("not streaming: running as plain llama.cpp with mmap"), Not(HasSubstr("memory:"))));
    EXPECT_EQ(run("--no-repack --moe-stream auto").out, resident.out);
}

TEST(CliStreamMode, StreamsAlwaysIfAskedTo) {
    for (const char *flag : {"--moe-stream", "--moe-stream on"}) {
        const Finished on = run(flag);
        EXPECT_EQ(on.status, 0) << on.err;
        EXPECT_THAT(on.err, AllOf(ContainsRegex("streaming [0-9]+ MiB of routed experts, [0-9]+ MiB in memory;"),
                                  HasSubstr("moe-stream:")));
    }
    EXPECT_EQ(run("--moe-stream perhaps").status, 2);
}

TEST(CliStreamMode, StreamsAModelThatDoesNotFitAndSaysWhy) {
    const Finished refused = run("--moe-stream --ram 1M");
    const int64_t least = number_in(refused, kLeastRam);
    ASSERT_GT(least, 0) << refused.err;
    const Finished streamed = run("--ram " + std::to_string(least));
    EXPECT_EQ(streamed.status, 0) << streamed.err;
    EXPECT_THAT(
        streamed.err,
        ContainsRegex("streaming [0-9]+ MiB of routed experts, [0-9]+ MiB in memory: the model needs "
                      "[0-9]+ MiB with its context and a reserve, and there are [0-9]+ MiB allowed \\(--ram\\)"));
}

TEST(CliStreamMode, StreamsForACacheThatCannotHoldAllExperts) {
    const Finished small = run("--cache-mb 4");
    EXPECT_THAT(small.err, AllOf(HasSubstr("--cache-mb 4 is less than all experts take"), HasSubstr("moe-stream:")));
    EXPECT_THAT(run("--cache-ceil-mb 4").err, HasSubstr("--cache-ceil-mb 4 is less than all experts take"));
    EXPECT_THAT(run("--cache-mb 0").err, HasSubstr("moe-stream:"));
    const Finished large = run("--cache-mb 500");
    EXPECT_THAT(large.err, AllOf(HasSubstr("not streaming"), HasSubstr("these have no effect: --cache-mb")));
}

// The plan decides what is refused, and must hold for what is not.
TEST(CliRam, TheSmallestThatIsNamedWorksAndOneLessDoesNot) {
    for (const std::string flags : {"--moe-stream", "--moe-stream --cache-mb 3", "--moe-stream --ubatch 32",
                                    "--moe-stream --cache-floor-mb 5", "--moe-stream --dense-weights warm"}) {
        const Finished refused = run(flags + " --ram 1M");
        EXPECT_EQ(refused.status, 1) << refused.err;
        EXPECT_THAT(refused.err, AllOf(HasSubstr("needs dense"), HasSubstr("1 MiB allowed (--ram)")));
        const int64_t least = number_in(refused, kLeastRam);
        ASSERT_GT(least, 1) << refused.err;
        const Finished works = run(flags + " --ram " + std::to_string(least) + "M");
        EXPECT_EQ(works.status, 0) << flags << works.err;
        EXPECT_LE(planned(works), least) << works.err;
        EXPECT_LE(peak_rss(works), least) << works.err;
        const Finished fails = run(flags + " --ram " + std::to_string(least - 1));
        EXPECT_EQ(fails.status, 1) << flags;
        EXPECT_EQ(number_in(fails, kLeastRam), least) << fails.err;
    }
}

// Streamed or not, whatever the flags ask for.
TEST(CliRam, TheSmallestThatIsNamedIsTheSmallestForAnyFlags) {
    const std::string flags[] = {
        "-ctk q8_0",
        "--ubatch 1024 -c 4096",
        "--cache-floor-mb 1 --dense-weights mmap",
        "--cache-floor-mb 5 --ubatch 32 -ctk q8_0",
        "--cache-floor-mb 14 -c 4096",
        "--cache-floor-mb 15",
        "--cache-floor-mb 1000 --dense-weights warm --ubatch 1024",
        "--cache-ceil-mb 500 --cache-floor-mb 15 --no-repack",
        "--cache-ceil-mb 6 --cache-floor-mb 6",
        "--cache-mb 0 -c 4096 -ctk q8_0",
        "--cache-mb 3 --dense-weights mmap --ubatch 1024",
        "--cache-mb 500",
        "--cache-mb 500 -c 8192 --ubatch 64 --dense-weights warm",
    };
    size_t resident = 0;
    for (const std::string mode : {" --moe-stream auto", " --moe-stream on"}) {
        for (const std::string &flag : flags) {
            std::string all = "-n 1 ";
            all.append(flag).append(mode);
            const Finished refused = run(all + " --ram 1M");
            EXPECT_EQ(refused.status, 1) << all << refused.err;
            EXPECT_THAT(refused.err, ContainsRegex("dense .* = [0-9]+ MiB")) << all;
            const int64_t least = number_in(refused, kLeastRam);
            ASSERT_GT(least, 1) << all << refused.err;
            const Finished works = run(all + " --ram " + std::to_string(least) + "M");
            EXPECT_EQ(works.status, 0) << all << works.err;
            EXPECT_LE(planned(works), least) << all << works.err;
            EXPECT_LE(peak_rss(works), least) << all << works.err;
            const Finished fails = run(all + " --ram " + std::to_string(least - 1) + "M");
            EXPECT_EQ(fails.status, 1) << all << fails.err;
            EXPECT_EQ(number_in(fails, kLeastRam), least) << all << fails.err;
            const bool is_resident = works.err.find("not streaming: ") != std::string::npos;
            EXPECT_EQ(refused.err.find("with all experts in memory") != std::string::npos, is_resident) << refused.err;
            resident += is_resident ? 1 : 0;
            EXPECT_EQ(run(all + " --moe-stream off --ram " + std::to_string(least) + "M").status, 2) << all;
        }
    }
    EXPECT_GT(resident, 0U);
}

TEST(CliRam, NoAmountIsNamedWhereNoneWouldDo) {
    const std::string more = "--n-expert-used 16";  // a cache of 1 MiB is too small for that
    const Finished small = run(more + " --moe-stream --cache-mb 1 --ram 1M");
    EXPECT_EQ(small.status, 1);
    EXPECT_THAT(small.err, AllOf(HasSubstr("the expert cache needs at least"), Not(ContainsRegex(kLeastRam))));
    const Finished bounded = run(more + " --moe-stream --cache-ceil-mb 1 --cache-floor-mb 1 --ram 1M");
    EXPECT_EQ(bounded.status, 1);
    EXPECT_THAT(bounded.err, AllOf(HasSubstr("--cache-ceil-mb 1 is less than the smallest cache of this model"),
                                   Not(ContainsRegex(kLeastRam))));
    const Finished without = run(more + " --moe-stream --cache-ceil-mb 1");
    EXPECT_EQ(without.status, 0) << without.err;
    EXPECT_THAT(without.err, HasSubstr("note: no expert cache: --cache-ceil-mb 1 is less than the smallest cache"));
}

TEST(CliRam, HoldsForAModelWithoutExpertsToo) {
    const std::string model = kTiny + "/qwen3.gguf";
    const Finished refused = run("--ram 1M", model);
    EXPECT_EQ(refused.status, 1);
    const int64_t least = number_in(refused, kLeastRam);
    ASSERT_GT(least, 1) << refused.err;
    const Finished works = run("--ram " + std::to_string(least), model);
    EXPECT_EQ(works.status, 0) << works.err;
    EXPECT_LE(peak_rss(works), least);
    EXPECT_THAT(works.err,
                HasSubstr("the model has no experts: running as plain llama.cpp with the whole model in memory"));
}

TEST(CliRam, TakesGibAndMibAndNothingElse) {
    for (const char *size : {"1G", "0.5g", "800M", "800m", "800"}) {
        EXPECT_EQ(run(std::string("--ram ") + size).status, 0) << size;
    }
    for (const char *size : {"much", "0", "-1G", "6T", "6GB", "nan", "1e300", "''"}) {
        EXPECT_EQ(run(std::string("--ram ") + size).status, 2) << size;
    }
    const Finished off = run("--moe-stream off --ram 6G");
    EXPECT_EQ(off.status, 2);
    EXPECT_THAT(off.err, HasSubstr("--ram cannot be held with --moe-stream off"));
}

TEST(CliRam, MoreThanIsFreeIsWhatIsFree) {
    const Finished most = run("--ram 900000G");
    EXPECT_EQ(most.status, 0) << most.err;
    EXPECT_THAT(most.err, Not(HasSubstr("--ram")));
}

TEST(CliCacheBounds, HoldTheAutomaticCache) {
    const Finished bounded = run("--moe-stream --cache-ceil-mb 6");
    EXPECT_EQ(number_in(bounded, "expert slots ([0-9]+) MiB"), 6) << bounded.err;
    const Finished refused = run("--moe-stream --ram 150M --cache-floor-mb 10 -c 60000");
    EXPECT_EQ(refused.status, 1);
    const Finished enough = run("--moe-stream --cache-floor-mb 10");
    EXPECT_EQ(enough.status, 0) << enough.err;
    EXPECT_GE(number_in(enough, "expert slots ([0-9]+) MiB"), 10);
    // All experts are as much as there can be.
    EXPECT_EQ(run("--moe-stream --cache-floor-mb 1000000").status, 0);
}

TEST(CliCacheBounds, AFloorThatIsNotFreeIsRefusedWithWhatIs) {
    const int64_t least = number_in(run("--moe-stream --ram 1M"), kLeastRam);
    ASSERT_GT(least, 0);
    // Room for the rest and the reserve, and 2 to 4 MiB more.
    const int64_t some = (least + 64) * 50 / 49 + 3;
    const Finished refused = run("--moe-stream --cache-floor-mb 9 --ram " + std::to_string(some));
    EXPECT_EQ(refused.status, 1) << refused.err;
    EXPECT_THAT(refused.err,
                ContainsRegex("[1-5] MiB are free for experts, fewer than --cache-floor-mb 9: there are "));
    const int64_t enough = number_in(refused, kLeastRam);
    EXPECT_EQ(run("--moe-stream --cache-floor-mb 9 --ram " + std::to_string(enough)).status, 0);
}

TEST(CliCacheBounds, AreForTheAutomaticCacheOnly) {
    for (const char *flags : {"--cache-mb 4 --cache-ceil-mb 6", "--cache-mb 4 --cache-floor-mb 2",
                              "--cache-ceil-mb 4 --cache-floor-mb 5", "--cache-ceil-mb 0"}) {
        EXPECT_EQ(run(std::string("--moe-stream ") + flags).status, 2) << flags;
    }
}

TEST(CliDenseWeights, AnswerTheSameWhereverTheyAre) {
    const Finished plain = run("--moe-stream off --no-repack");
    EXPECT_THAT(plain.err, HasSubstr(", dense_resident_frac 1.000"));
    for (const std::string place : {"anon", "mmap", "warm"}) {
        const Finished streamed = run("--moe-stream --cache-mb 4 --no-repack --dense-weights " + place);
        EXPECT_EQ(streamed.status, 0) << streamed.err;
        EXPECT_EQ(streamed.out, plain.out) << place;
        EXPECT_THAT(streamed.err, ContainsRegex("majflt/token [0-9.]+.*, dense_resident_frac 1.000"));
        EXPECT_THAT(streamed.err, HasSubstr(place == "anon" ? " MiB in memory" : " MiB in the page cache"));
    }
    EXPECT_EQ(run("--dense-weights disk").status, 2);
}

}  // namespace
}  // namespace bmoe::apps::test
