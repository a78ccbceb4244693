#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "bench/cells.h"

namespace bmoe::bench {
namespace {

std::vector<std::string> names(const std::vector<Cell> &cells) {
    std::vector<std::string> names;
    names.reserve(cells.size());
    for (const Cell &cell : cells) {
        names.push_back(cell.name);
    }
    return names;
}

std::vector<std::string> selected(std::string_view globs) { return names(select_cells(all_cells(), globs)); }

using Names = std::vector<std::string>;

TEST(Cells, HaveNamesOfTheirOwn) {
    const Names all = names(all_cells());
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST(Cells, ComeInTheOrderOfTheGlobsAndOnceEach) {
    EXPECT_EQ(selected("resident,decode-6g-auto"), (Names{"resident", "decode-6g-auto"}));
    EXPECT_EQ(selected("decode-?g-auto"),
              (Names{"decode-3g-auto", "decode-4g-auto", "decode-6g-auto", "decode-8g-auto"}));
    EXPECT_EQ(selected("decode-8g-auto,decode-[68]g-auto"), (Names{"decode-8g-auto", "decode-6g-auto"}));
    EXPECT_EQ(selected("replay-20pct-*"), (Names{"replay-20pct-lru", "replay-20pct-reap"}));
}

TEST(Cells, AreRefusedByTheNameThatMatchesNone) {
    try {
        select_cells(all_cells(), "resident,decode-5g-*");
        FAIL();
    } catch (const Error &error) {
        EXPECT_NE(std::string(error.what()).find("decode-5g-*"), std::string::npos) << error.what();
    }
    EXPECT_THROW(find_cell(all_cells(), "decode-*"), Error);
    EXPECT_THROW(find_cell(all_cells(), ""), Error);
}

TEST(Cells, SayWhatTheirNamesSay) {
    const Cell &decode = find_cell(all_cells(), "decode-6g-2000");
    EXPECT_EQ(decode.memory_mib, 6144U);
    EXPECT_EQ(decode.settings.at("cache"), "2000");
    EXPECT_EQ(find_cell(all_cells(), "decode-6g-2000-lru").settings.at("policy"), "lru");
    EXPECT_EQ(find_cell(all_cells(), "decode-11g-auto-serial").settings.at("overlap"), "off");
    EXPECT_EQ(find_cell(all_cells(), "prefill-8192").prompt_tokens, 8192U);
    const Cell &after = find_cell(all_cells(), "decode-6g-auto-after-512");
    EXPECT_EQ(after.prompt_tokens, 512U);
    EXPECT_EQ(after.tokens, 0U) << "as the command line says";
    EXPECT_EQ(find_cell(all_cells(), "mmap-3g-ra128").memory_mib, 3072U);
    EXPECT_EQ(find_cell(all_cells(), "mmap-11g-ra128").read_ahead_kib, 128);
    EXPECT_EQ(find_cell(all_cells(), "mmap-11g-radefault").read_ahead_kib, -1);
    EXPECT_EQ(find_cell(all_cells(), "resident-plain-prefill-512").settings.at("repack"), "off");
    EXPECT_EQ(find_cell(all_cells(), "resident-plain-experts-after-512").settings.at("repack-experts"), "off");
    EXPECT_FALSE(find_cell(all_cells(), "resident-plain-experts-after-512").settings.contains("repack"));
    EXPECT_TRUE(starts_warm(find_cell(all_cells(), "decode-6g-auto-warm")));
    EXPECT_FALSE(starts_warm(find_cell(all_cells(), "decode-6g-auto")));
    EXPECT_THROW(find_cell(all_cells(), "decode-6g-0-warm"), Error) << "there is no cache to warm";
    const Cell &prefill = find_cell(all_cells(), "prefill-8192-ub2048");
    EXPECT_EQ(prefill.prompt_tokens, 8192U);
    EXPECT_EQ(prefill.settings.at("ubatch"), "2048");
    EXPECT_FALSE(find_cell(all_cells(), "prefill-2048").settings.contains("ubatch"));
    EXPECT_EQ(find_cell(all_cells(), "resident-prefill-2048-ub2048").settings.at("mode"), "resident");
    const Cell &replay = find_cell(all_cells(), "replay-15pct-reap");
    EXPECT_TRUE(replay.replays);
    EXPECT_EQ(replay.settings.at("cache"), "15%");
}

}  // namespace
}  // namespace bmoe::bench
