#include <gtest/gtest.h>

#include "cli/session/output_lines.h"

namespace bmoe::cli {
namespace {

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
