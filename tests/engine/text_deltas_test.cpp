#include "engine/text_deltas.h"

#include <gtest/gtest.h>

namespace bmoe::engine {
namespace {

std::vector<std::string> deltas_of(TextDeltas deltas, const std::vector<std::string> &pieces) {
    std::vector<std::string> out;
    for (const std::string &piece : pieces) {
        out.push_back(deltas.add(piece));
        if (deltas.stopped()) {
            return out;
        }
    }
    out.push_back(deltas.finish());
    return out;
}

using Texts = std::vector<std::string>;

TEST(TextDeltas, NeverSplitsACharacter) {
    EXPECT_EQ(deltas_of(TextDeltas(), {"a", "gr\xC3", "\xB6\xC3\x9F", "e"}), (Texts{"a", "gr", "öß", "e", ""}));
    EXPECT_EQ(deltas_of(TextDeltas(), {"\xF0", "\x9F", "\x98", "\x80!"}), (Texts{"", "", "", "\xF0\x9F\x98\x80!", ""}));
    EXPECT_EQ(deltas_of(TextDeltas(), {"\xE2\x82"}), (Texts{"", "\xEF\xBF\xBD"}));
}

TEST(TextDeltas, ReplacesWhatIsNoUtf8) {
    const std::string bad = "\xEF\xBF\xBD";
    EXPECT_EQ(deltas_of(TextDeltas(), {"a\xFF", "\x80", "\xC0", "\xF8z"}), (Texts{"a" + bad, bad, bad, bad + "z", ""}));
    // One for each beginning of a character, however the bytes come.
    EXPECT_EQ(deltas_of(TextDeltas(), {"\xE2\xE2", "\x82x"}), (Texts{bad, bad + "x", ""}));
    EXPECT_EQ(deltas_of(TextDeltas(), {"\xE2\x82"}), (Texts{"", bad}));
    // Forms that are too long, a surrogate, beyond U+10FFFF.
    EXPECT_EQ(deltas_of(TextDeltas(), {"\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}),
              (Texts{bad + bad + bad, bad + bad + bad, bad + bad + bad + bad, ""}));
}

TEST(TextDeltas, EndsBeforeAStopHoweverItIsSplit) {
    const TextDeltas stops({"###", "END"});
    EXPECT_EQ(deltas_of(stops, {"one ## two", " #", "##three"}), (Texts{"one ## two", " ", ""}));
    EXPECT_EQ(deltas_of(stops, {"an E", "N", "E", "ND of"}), (Texts{"an ", "", "EN", ""}));
    EXPECT_EQ(deltas_of(stops, {"xEND###"}), (Texts{"x"}));
    EXPECT_EQ(deltas_of(stops, {"no #", "#"}), (Texts{"no ", "", "##"}));
    TextDeltas said({"###", "END"});
    said.add("### END");
    EXPECT_EQ(said.stop(), "###");
}

TEST(TextDeltas, TakesAStopOfCharactersThatAreSplit) {
    EXPECT_EQ(deltas_of(TextDeltas({"ö"}), {"gr\xC3", "\xB6\xC3"}), (Texts{"gr", ""}));
}

}  // namespace
}  // namespace bmoe::engine
