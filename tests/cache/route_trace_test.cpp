#include "cache/route_trace.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/cache/shapes.h"

namespace bmoe::cache {
namespace {

const std::string kHeader =
    "# route_trace v1\n"
    "# model=/models/m.gguf arch=x n_layer=2 n_expert=8 n_expert_used=2\n"
    "# layer=0 expert_bytes=1000 dense_bytes=5\n"
    "# layer=1 expert_bytes=2000 dense_bytes=5\n"
    "# turn,phase,step,layer,rank,expert,weight,resident,bytes\n";

class RouteTraceTest : public ::testing::Test {
  protected:
    RouteTrace read(const std::string &text) { return read_route_trace(folder_.write("a.route.csv", text)); }

    // The message of the error that reading it gives.
    std::string error(const std::string &text) {
        try {
            read(text);
        } catch (const Error &error) {
            return error.what();
        }
        return "no error";
    }

    test::ScratchFolder folder_;
};

TEST_F(RouteTraceTest, ReadsHeaderAndRows) {
    const RouteTrace trace = read(kHeader + "0,0,0,0,0,3,0.75,0,1000\n0,0,0,0,1,7,0.25,1,0\n0,1,1,1,0,2,1,0,2000\r\n");
    EXPECT_EQ(trace.model, "/models/m.gguf");
    EXPECT_EQ(trace.n_expert, 8u);
    EXPECT_EQ(trace.top_k, 2u);
    EXPECT_EQ(trace.expert_bytes, (std::vector<uint64_t>{1000, 2000}));
    ASSERT_EQ(trace.rows.size(), 2u);
    EXPECT_EQ(trace.rows[0].phase, Phase::kPrefill);
    EXPECT_EQ(trace.rows[0].experts, (std::vector<int32_t>{3, 7}));
    EXPECT_EQ(trace.rows[0].weights, (std::vector<float>{0.75f, 0.25f}));
    EXPECT_EQ(trace.rows[1].phase, Phase::kDecode);
    EXPECT_EQ(trace.rows[1].layer, 1u);
    EXPECT_EQ(trace.geometry().bytes(), 8u * 3000);
}

TEST_F(RouteTraceTest, NamesFileAndLineOfWhatIsWrong) {
    const std::string good = "0,1,0,0,0,3,0.75,0,1000\n";
    EXPECT_NE(error(kHeader + good + "0,1,0,0,1,8,0.1,0,0\n").find("a.route.csv, line 7: expert 8"), std::string::npos);
    EXPECT_NE(error(kHeader + good + "0,1,0,2,0,1,0.1,0,0\n").find("line 7: layer 2"), std::string::npos);
    EXPECT_NE(error(kHeader + good + "0,2,0,1,0,1,0.1,0,0\n").find("line 7: phase is 2"), std::string::npos);
    EXPECT_NE(error(kHeader + good + "0,1,0,1,1,1,0.1,0,0\n").find("line 7: rank is 1, expected 0"), std::string::npos);
    EXPECT_NE(error(kHeader + good + "0,1,0,1,0,x,0.1,0,0\n").find("line 7: expert is not a valid number: 'x'"),
              std::string::npos);
    EXPECT_NE(error(kHeader + good + "0,1,0,1,0\n").find("line 7: has fewer than 7 columns"), std::string::npos);
    EXPECT_NE(error(kHeader + good + "0,1,0,0,1,1,0.1\n0,1,0,0,2,2,0.1\n").find("line 8: a token has more experts"),
              std::string::npos);
}

TEST_F(RouteTraceTest, RefusesHeadersThatLackSomething) {
    const std::string row = "0,1,0,0,0,3,0.75,0,1000\n";
    EXPECT_NE(error("turn,phase\n" + row).find("line 1: is not '# route_trace v1'"), std::string::npos);
    EXPECT_NE(error("# route_trace v1\n" + row).find("line 2: rows begin before the header"), std::string::npos);
    EXPECT_NE(error("# route_trace v1\n# model=m n_layer=2 n_expert=8\n" + row).find("line 2: n_layer, n_expert or"),
              std::string::npos);
    EXPECT_NE(error("# route_trace v1\n# model=m n_layer=2 n_expert=8 n_expert_used=9\n").find("n_expert_used is not"),
              std::string::npos);
    EXPECT_NE(error("# route_trace v1\n# model=m n_layer=1 n_expert=8 n_expert_used=2\n" + row)
                  .find("no expert_bytes for layer 0"),
              std::string::npos);
    EXPECT_NE(error(kHeader).find("has no rows"), std::string::npos);
    EXPECT_NE(error("").find("line 1: is not"), std::string::npos);
}

TEST_F(RouteTraceTest, AMissingFileIsAnError) { EXPECT_THROW(read_route_trace(folder_.path() + "/none.csv"), Error); }

}  // namespace
}  // namespace bmoe::cache
