// What the traces say of layers that are really visited.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "backend/io_trace.h"
#include "backend/route_recorder.h"
#include "backend/router_guess.h"
#include "cache/route_trace.h"
#include "ggml-cpu.h"
#include "tests/backend/small_experts.h"

namespace bmoe::backend::test {
namespace {

std::vector<std::string> lines_of(const std::string &path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
        lines.push_back(line);
    }
    return lines;
}

std::vector<std::string> columns_of(const std::string &line) {
    std::istringstream in(line);
    std::vector<std::string> columns;
    for (std::string column; std::getline(in, column, ',');) {
        columns.push_back(column);
    }
    return columns;
}

class TraceTest : public testing::Test {
  protected:
    TraceTest() {
        experts_.store().set_cache(cache::SlotPool::whole_budget(experts_.store().geometry()), cache::PolicyKind::kLru);
        executor_.set_threads(2);
    }

    void decode(int tokens) {
        for (int token = 0; token < tokens; ++token) {
            for (uint32_t layer = 0; layer < experts_.shape().n_layers; ++layer) {
                experts_.visit(executor_, layer, 1, random_);
            }
        }
    }

    bmoe::test::Scratch scratch_;
    std::string path_ = scratch_.file("trace");
    SmallExperts experts_{Shape{}, {.io_threads = 2}};
    SplitExecutor executor_;
    std::mt19937 random_{5};
};

TEST_F(TraceTest, OfRoutesHasTheResidencyThatTheCacheCounts) {
    OutputFile file("--route-trace", path_);
    cache::RouteTraceWriter writer(file, 0);
    RouteRecorder recorder(writer);
    writer.begin(route_trace_header(experts_.store()));
    experts_.store().set_route_observer(&recorder);
    const StoreCounters before = experts_.store().counters();
    constexpr uint32_t kTokens = 6;
    for (uint32_t token = 0; token < kTokens; ++token) {
        writer.next_tokens(0, cache::Phase::kDecode, token);
        decode(1);
        writer.commit();
    }
    const StoreCounters counters = experts_.store().counters().since(before);
    experts_.store().set_route_observer(nullptr);
    decode(1);
    file.close();
    const cache::RouteTrace trace = cache::read_route_trace(path_);
    EXPECT_EQ(trace.rows.size(), size_t{kTokens} * experts_.shape().n_layers);
    EXPECT_EQ(trace.n_expert, experts_.shape().n_expert);
    for (const cache::RouteRow &row : trace.rows) {
        EXPECT_EQ(row.weights, std::vector<float>(experts_.shape().top_k, 0.5F));
    }
    uint64_t hits = 0;
    uint64_t rows = 0;
    for (const std::string &line : lines_of(path_)) {
        const auto columns = columns_of(line);
        if (columns[0] == "0") {
            ++rows;
            hits += columns[7] == "1" ? 1 : 0;
            EXPECT_EQ(columns[8] == "0", columns[7] == "1") << line;
        }
    }
    EXPECT_EQ(rows, uint64_t{kTokens} * experts_.shape().n_layers * experts_.shape().top_k);
    EXPECT_GT(hits, 0U);
    EXPECT_EQ(hits, counters.cache.hits);
}

TEST_F(TraceTest, OfReadsNamesTheSliceOfEveryRead) {
    OutputFile file("--io-trace", path_);
    IoTrace trace(file);
    io::ReadPool &pool = experts_.store().pool();
    pool.set_observer(&trace);
    trace.begin(experts_.store().model());
    const io::ReadCounters before = pool.counters();
    decode(6);
    pool.drain();
    pool.set_observer(nullptr);
    trace.write_out();
    file.close();
    uint64_t reads = 0;
    uint64_t bytes = 0;
    for (const std::string &line : lines_of(path_)) {
        const auto columns = columns_of(line);
        if (line[0] == '#' || columns[0] == "asked_us") {
            continue;
        }
        ASSERT_EQ(columns.size(), 11U) << line;
        const auto &bank =
            experts_.store().model().expert_layers()[std::stoul(columns[7])].banks[std::stoul(columns[9])];
        EXPECT_EQ(std::stoull(columns[5]), bank.offset + std::stoull(columns[8]) * bank.bytes_per_expert) << line;
        EXPECT_EQ(std::stoull(columns[6]), bank.bytes_per_expert) << line;
        EXPECT_EQ(columns[10], "ok");
        ++reads;
        bytes += std::stoull(columns[6]);
    }
    const io::ReadCounters counters = pool.counters().since(before);
    EXPECT_GT(reads, 0U);
    EXPECT_EQ(reads, counters.reads);
    EXPECT_EQ(bytes, counters.bytes);
}

TEST_F(TraceTest, ComputeIsCountedByTheThreadsThatDoIt) {
    const StoreCounters before = experts_.store().counters();
    decode(10);
    const StoreCounters counters = experts_.store().counters().since(before);
    EXPECT_GT(counters.compute_ns, 0U);
    EXPECT_LE(counters.compute_ns, 2 * counters.expert_ns) << "two threads";
}

// Routers whose scores are known: a layer's experts in the order of their ids.
TEST(RouteRecorder, HasTheRoutersScoresWhereItWouldSelectWhatWasSelected) {
    ggml_context *context = ggml_init({16 * ggml_tensor_overhead(), nullptr, true});
    ggml_tensor *weight = ggml_new_tensor_2d(context, GGML_TYPE_F32, 1, 4);
    ggml_tensor *input = ggml_new_tensor_3d(context, GGML_TYPE_F32, 1, 1, 2);
    ggml_set_name(weight, "blk.0.ffn_gate_inp.weight");
    ggml_tensor *logits = ggml_mul_mat(context, weight, ggml_new_tensor_1d(context, GGML_TYPE_F32, 1));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
    for (int expert = 0; expert < 4; ++expert) {
        static_cast<float *>(weight->data)[expert] = static_cast<float>(4 - expert);
    }
    static_cast<float *>(input->data)[0] = 1;
    static_cast<float *>(input->data)[1] = -1;
    RouterGuess routers(1);
    routers.look_at(logits, 0);
    const bool known = routers.knows(0);

    const bmoe::test::Scratch scratch;
    OutputFile file("--route-trace", scratch.file("a"));
    cache::RouteTraceWriter writer(file, 3);
    RouteRecorder recorder(writer);
    writer.begin({"m", "x", 4, 2, {{10, 0, known}}});
    writer.next_tokens(0, cache::Phase::kPrefill, 0);
    // The first token as the router would, in another order; the second not.
    const std::vector<int32_t> experts = {1, 0, 0, 1};
    recorder.on_routing({0, 2, 2, experts, experts, {}, {}, input}, routers);
    writer.commit();
    file.close();
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    ASSERT_TRUE(known);
    const auto lines = lines_of(scratch.file("a"));
    ASSERT_EQ(lines.size(), 8U);
    EXPECT_EQ(lines[4], "0,0,0,0,0,1,-1,0,10,0:4 1:3 2:2");
    EXPECT_EQ(lines[5], "0,0,0,0,1,0,-1,0,10,");
    EXPECT_EQ(lines[6], "0,0,1,0,0,0,-1,0,0,");
}

}  // namespace
}  // namespace bmoe::backend::test
