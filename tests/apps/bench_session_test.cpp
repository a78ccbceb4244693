// Sessions with a shell script in place of the run.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "bench/entry_state.h"
#include "bench/report.h"
#include "bench/session.h"
#include "tests/support/scratch.h"

namespace bmoe::bench {
namespace {

class SessionTest : public testing::Test {
  protected:
    // The script gets "run-one" and the request.
    void program(const std::string &script) {
        options_.program = scratch_.file("run");
        std::ofstream(options_.program) << "#!/bin/sh\n" << script << '\n';
        chmod(options_.program.c_str(), 0755);
    }

    std::vector<nlohmann::json> lines() const {
        std::vector<nlohmann::json> all;
        std::ifstream file(options_.out);
        for (std::string line; std::getline(file, line);) {
            all.push_back(nlohmann::json::parse(line));
        }
        return all;
    }

    std::vector<RunRecord> run() { return run_session(cells_, options_, progress_, interrupted_); }

    void SetUp() override {
        options_.model = scratch_.file("run");
        options_.out = scratch_.file("results.jsonl");
        options_.pairs = 2;
        options_.drop = DropCache::kNone;
        cells_.resize(2);
        cells_[0].name = "a";
        cells_[0].settings = {{"cache", "100"}};
        cells_[1].name = "b";
        cells_[1].settings = {{"cache", "0"}};
        for (const char *name : figure_names()) {
            figures_[name] = nullptr;
        }
    }

    std::string print(double tokens_per_second) {
        figures_["decode_tokens_per_second"] = tokens_per_second;
        return "echo '" + figures_.dump() + "'";
    }

    bmoe::test::Scratch scratch_;
    SessionOptions options_;
    std::vector<Cell> cells_;
    nlohmann::json figures_;
    std::ostringstream progress_;
    bool interrupted_ = false;
};

TEST_F(SessionTest, TakesTurnsAndWritesEveryRun) {
    program("case \"$2\" in *'\"cache\":\"100\"'*) " + print(8) + ";; *) " + print(2) + ";; esac");
    const auto records = run();
    const auto written = lines();
    ASSERT_EQ(written.size(), 4U);
    const char *const order[] = {"a", "b", "a", "b"};
    for (size_t i = 0; i < written.size(); ++i) {
        EXPECT_EQ(written[i].at("cell"), order[i]);
        EXPECT_EQ(written[i].at("pair"), i / 2 + 1);
        EXPECT_EQ(written[i].at("ok"), true) << written[i].dump();
        EXPECT_EQ(written[i].at("page_cache"), "kept");
        EXPECT_EQ(written[i].at("entry").at("time").get<std::string>().size(), 20U);
    }
    EXPECT_NE(median_table(cells_, records).find("8.00"), std::string::npos);
    EXPECT_NE(ratio_table(cells_, records).find("4.000 (4.000..4.000)"), std::string::npos);
    EXPECT_NE(progress_.str().find("[4/4] b, pair 2"), std::string::npos) << progress_.str();
    EXPECT_NE(progress_.str().find(" s left"), std::string::npos) << progress_.str();
}

TEST_F(SessionTest, RecordsAFailedRunAsFailedAndGoesOn) {
    program("case \"$2\" in *'\"cache\":\"100\"'*) echo 'error: no such tensor' >&2; exit 1;; *) " + print(2) +
            ";; esac");
    const auto records = run();
    const auto written = lines();
    ASSERT_EQ(written.size(), 4U);
    EXPECT_EQ(written[0].at("ok"), false);
    EXPECT_NE(written[0].at("error").get<std::string>().find("error: no such tensor"), std::string::npos);
    EXPECT_TRUE(written[0].at("figures").is_null());
    EXPECT_EQ(written[1].at("ok"), true);
    const std::string table = median_table(cells_, records);
    EXPECT_NE(table.find("FAILED: a, pair 2"), std::string::npos) << table;
    EXPECT_NE(table.find("0/2"), std::string::npos) << table;
    EXPECT_EQ(ratio_table(cells_, records).find("0.0"), std::string::npos) << "a failed run is no zero";
}

TEST_F(SessionTest, RecordsAProgramThatCannotBeStarted) {
    options_.program = scratch_.file("missing");
    EXPECT_FALSE(run()[0].ok());
}

TEST_F(SessionTest, RefusesToReplayWithoutATraceBeforeTheFirstRun) {
    program(print(1));
    cells_[1].replays = true;
    EXPECT_THROW(run(), Error);
    EXPECT_TRUE(lines().empty());
    options_.trace = "t.csv";
    run();
    EXPECT_EQ(lines()[1].at("request").at("settings").at("route-replay"), "t.csv");
}

TEST_F(SessionTest, ACellThatStartsWarmGetsItsProfileFromOtherText) {
    // Like a run, the script replaces the profile it is given. What it was asked, and the profile it found, is kept.
    program(
        "profile=$(echo \"$2\" | sed -n 's/.*\"profile\":\"\\([^\"]*\\)\".*/\\1/p')\n"
        "echo \"$2\" >> " +
        scratch_.file("asked") + "\ncat \"$profile\" >> " + scratch_.file("found") +
        "\nif [ -e \"$profile\" ]; then echo measured; else echo learned; fi > \"$profile.new\"\n"
        "mv \"$profile.new\" \"$profile\"\n" +
        print(1));
    cells_.resize(1);
    cells_[0].settings["warm-start"] = "on";
    cells_[0].prompt_tokens = 48;
    for (const RunRecord &record : run()) {
        EXPECT_TRUE(record.ok()) << record.error;
    }
    std::vector<nlohmann::json> asked;
    std::ifstream requests(scratch_.file("asked"));
    for (std::string line; std::getline(requests, line);) {
        asked.push_back(nlohmann::json::parse(line));
    }
    ASSERT_EQ(asked.size(), 3U);
    EXPECT_EQ(asked[0].at("prompt_skip"), 48);
    std::ostringstream found;
    found << std::ifstream(scratch_.file("found")).rdbuf();
    EXPECT_EQ(found.str(), "learned\nlearned\n") << "not what the first measured run made of it";

    const auto written = lines();
    ASSERT_EQ(written.size(), 2U) << "the first run is not recorded";
    for (size_t i = 0; i < written.size(); ++i) {
        EXPECT_EQ(written[i].at("request"), asked[i + 1]);
        EXPECT_EQ(written[i].at("request").at("prompt_skip"), 0);
        EXPECT_EQ(written[i].at("profile").at("request"), asked[0]);
        EXPECT_FALSE(written[i].at("profile").at("made_by").get<std::string>().empty());
    }
    EXPECT_NE(progress_.str().find("makes its profile"), std::string::npos) << progress_.str();
    const std::filesystem::path profile = asked[0].at("settings").at("profile").get<std::string>();
    EXPECT_FALSE(std::filesystem::exists(profile.parent_path())) << profile;
}

TEST_F(SessionTest, ACellWithoutItsProfileHasFailed) {
    cells_[0].settings["warm-start"] = "on";
    program("case \"$2\" in *warm-start*) echo 'error: no room' >&2; exit 1;; *) " + print(2) + ";; esac");
    const auto failed = run();
    ASSERT_EQ(failed.size(), 4U);
    for (const size_t warm : {0, 2}) {
        EXPECT_NE(failed[warm].error.find("makes the cell's profile failed"), std::string::npos) << failed[warm].error;
        EXPECT_NE(failed[warm].error.find("error: no room"), std::string::npos) << failed[warm].error;
        EXPECT_TRUE(failed[warm + 1].ok());
    }
    EXPECT_TRUE(lines()[0].at("profile").contains("request"));
    EXPECT_TRUE(lines()[1].at("profile").is_null());

    figures_["notes"] = {"warm start: disk full"};
    program(print(2));
    const auto without = run();
    EXPECT_NE(without[0].error.find("wrote none"), std::string::npos) << without[0].error;
    EXPECT_NE(without[0].error.find("disk full"), std::string::npos) << without[0].error;
}

TEST_F(SessionTest, RefusesResultsThatCannotBeWritten) {
    options_.out = scratch_.file("no/such/folder");
    EXPECT_THROW(run(), Error);
}

TEST_F(SessionTest, AnInterruptEndsTheRunAndKeepsWhatIsWritten) {
    // The second run signals the session and would never end.
    program("if [ -e " + scratch_.file("second") + " ]; then kill -INT $PPID; exec tail -f /dev/null; fi; touch " +
            scratch_.file("second") + "; " + print(1));
    const auto records = run();
    EXPECT_TRUE(interrupted_);
    EXPECT_EQ(records.size(), 1U);
    EXPECT_EQ(lines().size(), 1U);
}

TEST(EntryState, TellsWhatTheSystemTellsAndNoMore) {
    const bmoe::test::Scratch scratch;
    const std::string root = scratch.folder("root");
    EXPECT_EQ(entry_state(root).size(), 1U);  // the time
    scratch.folder("root/proc/pressure");
    std::ofstream(root + "/proc/loadavg") << "0.50 1.25 2.00 1/100 4242\n";
    std::ofstream(root + "/proc/meminfo") << "MemTotal: 100 kB\nMemAvailable:  42 kB\n";
    std::ofstream(root + "/proc/pressure/io") << "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\n";
    std::ofstream(root + "/proc/cpuinfo") << "processor\t: 0\ncpu MHz\t\t: 2100.5\n";
    const nlohmann::json state = entry_state(root);
    EXPECT_EQ(state.at("load"), (nlohmann::json{0.5, 1.25, 2.0}));
    EXPECT_EQ(state.at("mem_available_bytes"), 42 * 1024);
    EXPECT_EQ(state.at("pressure"), (nlohmann::json{{"io", 1.5}}));
    EXPECT_EQ(state.at("cpu_mhz"), nlohmann::json::array({2100.5}));
}

TEST(FormatTable, AlignsTheFirstColumnLeftAndTheOthersRight) {
    EXPECT_EQ(format_table({{"cell", "n"}, {"a", "100"}}), "cell    n\na     100\n");
}

}  // namespace
}  // namespace bmoe::bench
