#include "cache/route_trace_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cache/route_trace.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

RouteTraceHeader header() { return {"/models/with blank.gguf", "x", 8, 2, {{1000, 3, true}, {2000, 4, false}}}; }

class RouteTraceWriterTest : public ::testing::Test {
  protected:
    std::string text() {
        file_.close();
        EXPECT_EQ(file_.error(), "");
        std::ostringstream text;
        text << std::ifstream(path_).rdbuf();
        return text.str();
    }

    test::ScratchFolder folder_;
    std::string path_ = folder_.path() + "/a.route.csv";
    OutputFile file_{"--route-trace", path_};
    const std::vector<int32_t> prompt_ = {3, 7, 7, 1};
    const std::vector<float> weights_ = {0.75F, 0.25F, 0.1F, 0.9F};
    const std::vector<int32_t> resident_ = {3};
};

TEST_F(RouteTraceWriterTest, WritesWhatTheReaderReads) {
    RouteTraceWriter writer(file_, 0);
    writer.begin(header());
    writer.next_tokens(0, Phase::kPrefill, 0);
    writer.add({0, 2, 2, prompt_, prompt_, weights_, resident_, {}});
    // Of the last layer only the last token.
    writer.add(
        {1, 1, 2, std::vector<int32_t>{5, 0}, std::vector<int32_t>{5, 0}, std::vector<float>{0.6F, 1e-8F}, {}, {}});
    writer.commit();
    writer.next_tokens(0, Phase::kDecode, 0);
    writer.add({0, 1, 2, std::vector<int32_t>{2, 3}, std::vector<int32_t>{2, 3}, {}, resident_, {}});
    writer.add({1, 1, 2, std::vector<int32_t>{4, 6}, std::vector<int32_t>{4, 6}, {}, {}, {}});
    writer.commit();
    EXPECT_EQ(text(),
              "# route_trace v1\n"
              "# model=/models/with_blank.gguf arch=x n_layer=2 n_expert=8 n_expert_used=2\n"
              "# layer=0 expert_bytes=1000 block=3\n"
              "# layer=1 expert_bytes=2000 block=4\n"
              "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
              "0,0,0,0,0,3,0.75,1,0\n"
              "0,0,0,0,1,7,0.25,0,1000\n"
              "0,0,1,0,0,7,0.1,0,0\n"
              "0,0,1,0,1,1,0.9,0,1000\n"
              "0,0,1,1,0,5,0.6,0,2000\n"
              "0,0,1,1,1,0,1e-08,0,2000\n"
              "0,1,0,0,0,2,-1,0,1000\n"
              "0,1,0,0,1,3,-1,1,0\n"
              "0,1,0,1,0,4,-1,0,2000\n"
              "0,1,0,1,1,6,-1,0,2000\n");
    const RouteTrace trace = read_route_trace(path_);
    EXPECT_EQ(trace.n_expert, 8U);
    EXPECT_EQ(trace.top_k, 2U);
    EXPECT_EQ(trace.expert_bytes, (std::vector<uint64_t>{1000, 2000}));
    ASSERT_EQ(trace.rows.size(), 5U);
    EXPECT_EQ(trace.rows[1].experts, (std::vector<int32_t>{7, 1}));
    EXPECT_EQ(trace.rows[1].weights, (std::vector<float>{0.1F, 0.9F}));
    EXPECT_EQ(trace.rows[4].phase, Phase::kDecode);
    EXPECT_GE(replay(trace, PolicyKind::kReap, 6000).hit_bytes, 0U);
}

TEST_F(RouteTraceWriterTest, LeavesOutTokensThatWereNotFinished) {
    RouteTraceWriter writer(file_, 0);
    writer.begin(header());
    for (uint32_t token = 0; token < 2; ++token) {
        writer.next_tokens(0, Phase::kDecode, token);
        writer.add({0, 1, 2, std::vector<int32_t>{2, 3}, std::vector<int32_t>{2, 3}, {}, {}, {}});
        if (token == 0) {
            writer.add({1, 1, 2, std::vector<int32_t>{2, 3}, std::vector<int32_t>{2, 3}, {}, {}, {}});
            writer.commit();
        }
    }
    writer.next_tokens(1, Phase::kPrefill, 0);
    EXPECT_EQ(text().find("\n0,1,1,"), std::string::npos);
    EXPECT_EQ(read_route_trace(path_).rows.size(), 2U);
}

TEST_F(RouteTraceWriterTest, PutsScoresInTheFirstRowOfATokenThatHasThem) {
    RouteTraceWriter writer(file_, 3);
    writer.begin(header());
    writer.next_tokens(2, Phase::kPrefill, 512);
    const std::vector<RouterScore> scores = {{3, 1.5F}, {7, -0.25F}, {0, -2}, {}, {}, {}};
    writer.add({0, 2, 2, prompt_, prompt_, weights_, {}, scores});
    writer.commit();
    const std::string written = text();
    EXPECT_NE(written.find("# layer=1 expert_bytes=2000 block=4 scores=0\n"), std::string::npos);
    EXPECT_NE(written.find("expert_bytes,scores\n"
                           "2,0,512,0,0,3,0.75,0,1000,3:1.5 7:-0.25 0:-2\n"
                           "2,0,512,0,1,7,0.25,0,1000,\n"
                           "2,0,513,0,0,7,0.1,0,0,\n"),
              std::string::npos)
        << written;
    EXPECT_EQ(read_route_trace(path_).rows.size(), 2U);
}

}  // namespace
}  // namespace bmoe::cache
