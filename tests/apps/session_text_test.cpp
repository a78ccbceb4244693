// Text on its way from tokens to lines.
#include <gtest/gtest.h>

#include "cli/session/output_lines.h"
#include "cli/session/text_deltas.h"

namespace bmoe::cli {
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
    EXPECT_EQ(deltas_of({}, {"a", "gr\xC3", "\xB6\xC3\x9F", "e"}), (Texts{"a", "gr", "öß", "e", ""}));
    EXPECT_EQ(deltas_of({}, {"\xF0", "\x9F", "\x98", "\x80!"}), (Texts{"", "", "", "\xF0\x9F\x98\x80!", ""}));
    EXPECT_EQ(deltas_of({}, {"\xE2\x82"}), (Texts{"", "\xE2\x82"}));
}

TEST(TextDeltas, PassesOnWhatCanBecomeNoCharacter) {
    EXPECT_EQ(deltas_of({}, {"\xFF", "\x80", "\xC0", "\xF8"}), (Texts{"\xFF", "\x80", "\xC0", "\xF8", ""}));
    EXPECT_EQ(deltas_of({}, {"\xE2\xE2"}), (Texts{"\xE2", "\xE2"}));
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

TEST(OutputLines, AreOneLineOfUtf8WhateverTheText) {
    EXPECT_EQ(output_line("BMOE_PROGRESS", {{"id", "a"}, {"delta", "x\n\"\xE2\x82\xAC\xFF\xC3"}}),
              "BMOE_PROGRESS {\"id\":\"a\",\"delta\":\"x\\n\\\"\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD\"}\n");
}

TEST(OutputLines, ErrorsNameTheirRequestIfThereIsOne) {
    EXPECT_EQ(output_line("BMOE_ERROR", error_body("a", "busy", "later", false)),
              "BMOE_ERROR {\"id\":\"a\",\"code\":\"busy\",\"message\":\"later\",\"fatal\":false}\n");
    EXPECT_EQ(error_body({}, "open", "x", true)["id"], nullptr);
}

TEST(OutputLines, WhatWasNotMeasuredIsNull) {
    EXPECT_EQ(measured(0.12345678).dump(), "0.123457");
    EXPECT_EQ(measured(0).dump(), "0.0");
    EXPECT_TRUE(measured(-1).is_null());
    EXPECT_TRUE(measured(0.0 / 0.0).is_null());
}

}  // namespace
}  // namespace bmoe::cli
