#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/prompt_cut.h"

namespace bmoe::bench {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kStart = 100;
const TextTokens kText{"text.txt", {kStart, 1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}};
const TextTokens kWithoutStart{"text.txt", {1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}};

TEST(PromptCut, RepeatsATextThatIsTooShort) {
    EXPECT_EQ(cut_prompt(kText, 0, 3).tokens, (Tokens{kStart, 1, 2}));
    EXPECT_EQ(cut_prompt(kText, 0, 3).repeats, 1U);
    EXPECT_EQ(cut_prompt(kText, 0, 10).tokens, (Tokens{kStart, 1, 2, 3, 4, 5, 6, 7, 1, 2}));
    EXPECT_EQ(cut_prompt(kText, 0, 10).repeats, 2U);
}

TEST(PromptCut, AfterAPromptSharesNoTextWithIt) {
    EXPECT_EQ(cut_prompt(kText, 3, 3).tokens, (Tokens{kStart, 4, 5}));
    EXPECT_EQ(cut_prompt(kText, 4, 4).tokens, (Tokens{kStart, 5, 6, 7}));
    EXPECT_EQ(cut_prompt(kWithoutStart, 3, 3).tokens, (Tokens{4, 5, 6}));
}

TEST(PromptCut, DoesNotRepeatTextThatWasPassedOver) {
    for (const TextTokens &text : {kText, kWithoutStart}) {
        try {
            cut_prompt(text, 5, 4);
            FAIL();
        } catch (const Error &error) {
            const std::string said = error.what();
            EXPECT_NE(said.find("text.txt: is too short: 4 tokens after the first 5"), std::string::npos) << said;
            EXPECT_NE(said.find("--prompt"), std::string::npos) << said;
        }
    }
}

TEST(PromptCut, RefusesATextWithoutTokens) {
    EXPECT_THROW(cut_prompt({"text.txt", {}, {}}, 0, 4), Error);
    EXPECT_THROW(cut_prompt({"text.txt", {kStart}, {}}, 0, 4), Error);
}

}  // namespace
}  // namespace bmoe::bench
