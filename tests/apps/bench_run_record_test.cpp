#include <gtest/gtest.h>

#include <csignal>

#include "bench/run_record.h"

namespace bmoe::bench {
namespace {

nlohmann::json whole_figures() {
    nlohmann::json figures;
    for (const char *name : figure_names()) {
        figures[name] = nullptr;
    }
    figures["decode_tokens_per_second"] = 7.5;
    return figures;
}

RunRecord judged(int wait_status, const std::string &out, const std::string &err = "") {
    RunRecord record;
    judge({wait_status, out, err}, record);
    return record;
}

constexpr int exited(int status) { return status << 8; }

TEST(RunRecord, TakesTheFiguresOfARunThatSucceeded) {
    const RunRecord record = judged(exited(0), whole_figures().dump() + "\n", "a warning\n");
    EXPECT_TRUE(record.ok()) << record.error;
    EXPECT_EQ(record.figure("decode_tokens_per_second"), 7.5);
    EXPECT_EQ(record.figure("hit_rate"), std::nullopt) << "null is not a number";
    EXPECT_EQ(record.figure("no such figure"), std::nullopt);
    const nlohmann::json line = record.to_json();
    EXPECT_EQ(line.at("ok"), true);
    EXPECT_TRUE(line.at("error").is_null());
    EXPECT_EQ(line.at("figures").at("decode_tokens_per_second"), 7.5);
}

TEST(RunRecord, HasNoFiguresAfterAFailureButItsErrorLine) {
    const RunRecord record =
        judged(exited(1), whole_figures().dump(), "loading\nerror: m.gguf: is too short\nsome more\n");
    EXPECT_FALSE(record.ok());
    EXPECT_NE(record.error.find("error: m.gguf: is too short"), std::string::npos) << record.error;
    EXPECT_EQ(record.figure("decode_tokens_per_second"), std::nullopt);
    const nlohmann::json line = record.to_json();
    EXPECT_EQ(line.at("ok"), false);
    EXPECT_TRUE(line.at("figures").is_null());
    EXPECT_EQ(line.at("error"), record.error);
}

TEST(RunRecord, SaysWhatEndedARunThatSaidNothing) {
    EXPECT_NE(judged(SIGKILL, "").error.find("memory cgroup is full"), std::string::npos);
    EXPECT_NE(judged(SIGSEGV, "").error.find("signal 11"), std::string::npos);
    EXPECT_NE(judged(exited(3), "", "boom\n").error.find("status 3: boom"), std::string::npos);
}

TEST(RunRecord, FailsWithoutAWholeObject) {
    EXPECT_FALSE(judged(exited(0), "").ok());
    EXPECT_FALSE(judged(exited(0), "{\"mode\": ").ok());
    EXPECT_FALSE(judged(exited(0), "[1, 2]").ok());
    nlohmann::json figures = whole_figures();
    figures.erase("stall_seconds");
    EXPECT_NE(judged(exited(0), figures.dump()).error.find("stall_seconds"), std::string::npos);
}

}  // namespace
}  // namespace bmoe::bench
