#include "telemetry/csv_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/scratch.h"

namespace bmoe::telemetry {
namespace {

constexpr char kColumns[] =
    "row,turn,tokens,wall_s,stall_s,expert_compute_s,reads,read_bytes,hits,misses,speculative_bytes,guessed,"
    "guessed_right,wasted_bytes,dropped,substituted,mass_forgone,majflt,minflt,user_s,system_s,rss_bytes,"
    "mem_available_bytes,swap_bytes\n";

class CsvLogTest : public testing::Test {
  protected:
    std::string text() {
        file_.close();
        std::ostringstream text;
        text << std::ifstream(path_).rdbuf();
        return text.str();
    }

    bmoe::test::Scratch scratch_;
    std::string path_ = scratch_.file("a.csv");
    OutputFile file_{"--csv", path_};
    CsvLog log_{file_};
};

CsvRow row(uint32_t tokens, int64_t memory_available) {
    CsvRow row;
    row.tokens = tokens;
    row.seconds = 0.5;
    row.experts = {0.125, 0.25, 6, 6000, 10, 2, 1000, 3, 1, 2000};
    row.lossy = {1, 2, 0.25};
    row.usage = {0.75, 0.0625, 4, 50};
    row.memory = {100, 7, memory_available};
    return row;
}

TEST_F(CsvLogTest, WritesPreambleRowsAndTheirSum) {
    log_.begin({{"engine_version", "0.1.0"}, {"model", "/a b/c=d.gguf"}});
    log_.add_prompt(row(5, 3000));
    log_.add_token(row(1, 1000));
    log_.add_token(row(2, 2000));
    log_.add_summary(123);
    EXPECT_EQ(text(), std::string("# bmoe_csv v1\n# engine_version=0.1.0\n# model=/a b/c=d.gguf\n") + kColumns +
                          "prompt,0,5,0.500000,0.125000,0.250000,6,6000,10,2,1000,3,1,2000,1,2,0.250000,4,50,0.750000,"
                          "0.062500,100,3000,7\n"
                          "token,0,1,0.500000,0.125000,0.250000,6,6000,10,2,1000,3,1,2000,1,2,0.250000,4,50,0.750000,"
                          "0.062500,100,1000,7\n"
                          "token,0,2,0.500000,0.125000,0.250000,6,6000,10,2,1000,3,1,2000,1,2,0.250000,4,50,0.750000,"
                          "0.062500,100,2000,7\n"
                          "summary,0,2,1.000000,0.250000,0.500000,12,12000,20,4,2000,6,2,4000,2,4,0.500000,8,100,"
                          "1.500000,0.125000,123,1000,7\n");
}

TEST_F(CsvLogTest, WhatIsNotMeasuredIsNotZero) {
    log_.begin({});
    CsvRow plain;
    plain.tokens = 1;
    log_.add_token(plain);
    log_.add_token(row(2, 1000));
    log_.add_summary(-1);
    const std::string written = text();
    EXPECT_NE(
        written.find("token,0,1,0.000000,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,0,0,0.000000,0.000000,-1,-1,-1\n"),
        std::string::npos)
        << written;
    EXPECT_NE(
        written.find("summary,0,2,0.500000,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,4,50,0.750000,0.062500,-1,1000,7\n"),
        std::string::npos)
        << written;
}

TEST_F(CsvLogTest, RowsAreInTheFileAtOnce) {
    log_.begin({});
    log_.add_token(row(1, 1));
    std::ostringstream now;
    now << std::ifstream(path_).rdbuf();
    EXPECT_EQ(now.str().back(), '\n');
    EXPECT_NE(now.str().find("token,0,1,"), std::string::npos);
}

}  // namespace
}  // namespace bmoe::telemetry
