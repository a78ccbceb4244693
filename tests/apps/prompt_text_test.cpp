// What prompts may hold, and what is said about them.
#include <gtest/gtest.h>

#include "cli/prompt_progress.h"
#include "cli/utf8.h"

namespace bmoe::cli {
namespace {

TEST(Utf8, IsTold) {
    EXPECT_FALSE(find_invalid_utf8("aß€𝄞"));
    EXPECT_EQ(count_characters("aß€𝄞"), 4u);
    EXPECT_EQ(find_invalid_utf8("a\xC3"), 1u);             // cut off
    EXPECT_EQ(find_invalid_utf8("ab\xC0\x80"), 2u);        // longer than needed
    EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u);      // a surrogate
    EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);  // beyond the last one
    EXPECT_EQ(find_invalid_utf8("a\x80"), 1u);             // begins in the middle
}

TEST(PromptProgress, SaysHowFarHowFastAndHowLong) {
    EXPECT_EQ(prompt_progress_text(0, 8192, 0), "0 of 8192 tokens");
    EXPECT_EQ(prompt_progress_text(1024, 8192, 1024 / 38.125), "1024 of 8192 tokens, 38.1 tok/s, 3 min 8 s left");
    EXPECT_EQ(prompt_progress_text(512, 600, 51.2), "512 of 600 tokens, 10.0 tok/s, 9 s left");
    EXPECT_EQ(prompt_progress_text(100, 8292, 100), "100 of 8292 tokens, 1.0 tok/s, 2 h 16 min left");
}

}  // namespace
}  // namespace bmoe::cli
