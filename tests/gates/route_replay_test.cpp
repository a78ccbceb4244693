// Route replay on a model: tokens use exactly the experts of the trace, and nothing else changes.
#include "backend/route_replay.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "backend/ggml_device.h"
#include "base/error.h"
#include "cache/slot_pool.h"
#include "gates/run_model.h"
#include "tests/support/scratch.h"

namespace bmoe::gates {
namespace {

const std::string kModel = std::string(BMOE_TINY_MODELS) + "/qwen3moe.gguf";

using Experts = std::vector<int32_t>;
using Routing = std::vector<std::vector<Experts>>;  // token, layer

void write_rows(std::ofstream &file, int phase, const Routing &routing) {
    for (size_t token = 0; token < routing.size(); ++token) {
        for (size_t layer = 0; layer < routing[token].size(); ++layer) {
            const Experts &experts = routing[token][layer];
            for (size_t rank = 0; rank < experts.size(); ++rank) {
                file << "0," << phase << ',' << token << ',' << layer << ',' << rank << ',' << experts[rank]
                     << ",0.25,0,1000\n";
            }
        }
    }
}

void write_trace(const std::string &path, const Routing &routing, uint32_t n_expert, uint32_t top_k,
                 const Routing &prompt = {}) {
    std::ofstream file(path);
    const size_t n_layer = routing.front().size();
    file << "# route_trace v1\n# model=m arch=x n_layer=" << n_layer << " n_expert=" << n_expert
         << " n_expert_used=" << top_k << '\n';
    for (size_t layer = 0; layer < n_layer; ++layer) {
        file << "# layer=" << layer << " expert_bytes=1000 dense_bytes=0\n";
    }
    write_rows(file, 0, prompt);
    write_rows(file, 1, routing);
}

// Experts that no router would choose in this order, other ones for every token and layer.
Routing made_up_routing(size_t tokens, size_t layers, uint32_t n_expert, uint32_t top_k) {
    Routing routing(tokens, std::vector<Experts>(layers));
    for (size_t token = 0; token < tokens; ++token) {
        for (size_t layer = 0; layer < layers; ++layer) {
            for (uint32_t rank = 0; rank < top_k; ++rank) {
                routing[token][layer].push_back(static_cast<int32_t>((token * 5 + layer * 3 + rank) % n_expert));
            }
        }
    }
    return routing;
}

std::string refusal(const engine::Options &options) {
    try {
        const engine::Engine engine(options);
    } catch (const Error &error) {
        return error.what();
    }
    return "no error";
}

// Fixed tokens: logits of the prompt's last position and of every decoded token.
constexpr uint32_t kPromptTokens = 20;
constexpr uint32_t kDecodeTokens = 6;

std::vector<float> drive(llama_context *context, int32_t vocabulary) {
    std::vector<float> logits;
    const auto decode = [&](std::vector<llama_token> tokens) {
        EXPECT_EQ(llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))), 0);
        const float *row = llama_get_logits_ith(context, -1);
        logits.insert(logits.end(), row, row + vocabulary);
    };
    std::vector<llama_token> prompt;
    for (uint32_t i = 0; i < kPromptTokens; ++i) {
        prompt.push_back(static_cast<llama_token>(40 + i * 7 % 60));
    }
    decode(prompt);
    for (uint32_t i = 0; i < kDecodeTokens; ++i) {
        decode({static_cast<llama_token>(50 + i * 11 % 40)});
    }
    return logits;
}

std::vector<float> drive(const engine::Engine &engine) {
    return drive(engine.context(), llama_vocab_n_tokens(llama_model_get_vocab(engine.model())));
}

// Collects the routing as llama.cpp computes it.
struct Recorder {
    Routing prompt;  // layers that are computed for the last token only have the last token's
    Routing decoded;
    size_t pass_tokens = 0;

    static bool on_tensor(ggml_tensor *tensor, bool ask, void *data) {
        unsigned layer = 0;
        if (std::sscanf(tensor->name, "ffn_moe_topk-%u", &layer) != 1) {
            return !ask;
        }
        if (!ask) {
            static_cast<Recorder *>(data)->add(layer, *tensor);
        }
        return true;
    }

    void add(unsigned layer, const ggml_tensor &ids) {
        if (layer == 0) {
            pass_tokens = static_cast<size_t>(ids.ne[1]);
        }
        Routing &routing = pass_tokens == 1 ? decoded : prompt;
        if (layer == 0) {
            routing.resize(routing.size() + pass_tokens);
        }
        for (int64_t token = 0; token < ids.ne[1]; ++token) {
            const char *row = static_cast<const char *>(ids.data) + token * ids.nb[1];
            Experts experts;
            for (int64_t rank = 0; rank < ids.ne[0]; ++rank) {
                experts.push_back(*reinterpret_cast<const int32_t *>(row + rank * ids.nb[0]));
            }
            const size_t index = routing.size() - static_cast<size_t>(ids.ne[1] - token);
            routing[index].resize(layer + 1);
            routing[index][layer] = std::move(experts);
        }
    }
};

Recorder own_routing(const engine::Engine &engine) {
    Recorder recorder;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 256;
    params.n_threads = 2;
    params.n_threads_batch = 2;
    params.cb_eval = Recorder::on_tensor;
    params.cb_eval_user_data = &recorder;
    const std::unique_ptr<llama_context, void (*)(llama_context *)> context(
        llama_init_from_model(engine.model(), params), llama_free);
    drive(context.get(), llama_vocab_n_tokens(llama_model_get_vocab(engine.model())));
    return recorder;
}

class RouteReplay : public testing::Test {
  protected:
    void SetUp() override {
        const engine::Engine engine(gate_options(kModel, true));
        geometry_ = engine.store()->geometry();
        n_expert_ = geometry_.layers[0].n_expert;
        top_k_ = geometry_.layers[0].top_k;
    }

    engine::Options options() const {
        engine::Options options = gate_options(kModel, true);
        options.route_replay = trace_;
        return options;
    }

    // Which experts each layer reads for more tokens, from an empty cache that would hold all.
    std::vector<std::set<int32_t>> visited_by(engine::Engine &engine, size_t n_tokens) const {
        engine.store()->set_cache(cache::SlotPool::whole_budget(geometry_), cache::PolicyKind::kLru);
        const std::vector<llama_token> tokens(n_tokens, 65);
        engine.decode(tokens);
        std::vector<std::set<int32_t>> visited(geometry_.layers.size());
        const auto layers = static_cast<uint16_t>(visited.size());
        for (uint16_t layer = 0; layer < layers; ++layer) {
            for (uint16_t expert = 0; expert < n_expert_; ++expert) {
                if (engine.store()->cache()->resident({layer, expert})) {
                    visited[layer].insert(expert);
                }
            }
        }
        return visited;
    }

    bmoe::test::Scratch scratch_;
    std::string trace_ = scratch_.file("a.route.csv");
    cache::Geometry geometry_;
    uint32_t n_expert_ = 0;
    uint32_t top_k_ = 0;
};

TEST_F(RouteReplay, DecodesWithExactlyTheExpertsOfTheTraceAndStartsAgainAtItsEnd) {
    constexpr size_t kTokens = 3;
    const Routing routing = made_up_routing(kTokens, geometry_.layers.size(), n_expert_, top_k_);
    write_trace(trace_, routing, n_expert_, top_k_);
    engine::Engine engine(options());
    EXPECT_NE(engine.report().route_replay.find("3 tokens, routing is recorded, text is meaningless"),
              std::string::npos);
    const std::vector<llama_token> prompt(kPromptTokens, 66);
    engine.decode(prompt);
    for (size_t token = 0; token < 2 * kTokens + 1; ++token) {
        const auto visited = visited_by(engine, 1);
        for (size_t layer = 0; layer < visited.size(); ++layer) {
            const Experts &expected = routing[token % kTokens][layer];
            EXPECT_EQ(visited[layer], std::set<int32_t>(expected.begin(), expected.end()))
                << "token " << token << " layer " << layer;
        }
    }
}

TEST_F(RouteReplay, OfTheModelsOwnRoutingChangesNothing) {
    engine::Engine resident(gate_options(kModel, false));
    const Recorder own = own_routing(resident);
    ASSERT_EQ(own.decoded.size(), kDecodeTokens);
    ASSERT_EQ(own.prompt.size(), kPromptTokens);
    ASSERT_TRUE(own.prompt.front().size() < own.prompt.back().size());  // the last layer is the last token's
    const std::vector<float> expected = drive(resident);

    write_trace(trace_, own.decoded, n_expert_, top_k_, own.prompt);
    EXPECT_EQ(first_difference(drive(engine::Engine(options())), expected), -1);

    // Not by chance because nothing was replayed. A prompt keeps its own routing where none was recorded.
    const Routing other = made_up_routing(5, geometry_.layers.size(), n_expert_, top_k_);
    write_trace(trace_, other, n_expert_, top_k_);
    const int64_t vocabulary = static_cast<int64_t>(expected.size()) / (kDecodeTokens + 1);
    EXPECT_GE(first_difference(drive(engine::Engine(options())), expected), vocabulary);
    write_trace(trace_, own.decoded, n_expert_, top_k_, other);
    const int64_t prompt_differs = first_difference(drive(engine::Engine(options())), expected);
    EXPECT_GE(prompt_differs, 0);
    EXPECT_LT(prompt_differs, vocabulary);
}

// Prompts longer than the recorded one, in ubatches of several and of one token.
TEST_F(RouteReplay, APromptTakesTheExpertsOfTheRecordedPromptAndStartsAgainAtItsEnd) {
    constexpr size_t kRecorded = 7;
    const Routing prompt = made_up_routing(kRecorded, geometry_.layers.size(), n_expert_, top_k_);
    write_trace(trace_, made_up_routing(2, geometry_.layers.size(), n_expert_, top_k_), n_expert_, top_k_, prompt);
    engine::Engine engine(options());
    EXPECT_NE(engine.report().route_replay.find("after a prompt of 7, 2 tokens, routing is recorded"),
              std::string::npos);
    engine.store()->set_in_prompt(true);
    size_t token = 0;
    for (const size_t tokens : {3, 1, 5, 1, 2}) {
        std::set<int32_t> expected;
        for (size_t i = 0; i < tokens; ++i, ++token) {
            const Experts &experts = prompt[token % kRecorded][0];
            expected.insert(experts.begin(), experts.end());
        }
        EXPECT_EQ(visited_by(engine, tokens)[0], expected) << "up to token " << token;
    }
    engine.store()->set_in_prompt(false);
}

TEST_F(RouteReplay, ReadsNothingAhead) {
    write_trace(trace_, made_up_routing(2, geometry_.layers.size(), n_expert_, top_k_), n_expert_, top_k_);
    engine::Options replayed = options();
    replayed.lookahead = 4;
    EXPECT_EQ(engine::Engine(replayed).store()->lookahead().depth(), 0);
}

TEST_F(RouteReplay, OpensTheModelWithTheTopKOfTheTrace) {
    write_trace(trace_, made_up_routing(2, geometry_.layers.size(), n_expert_, 2), n_expert_, 2);
    engine::Options replayed = options();
    std::string notes;
    replayed.on_note = [&](const std::string &note) { notes += note + '\n'; };
    engine::Engine engine(replayed);
    EXPECT_NE(notes.find("a token uses 2 experts"), std::string::npos) << notes;
    EXPECT_EQ(engine.store()->geometry().layers[0].top_k, 2U);
    EXPECT_EQ(visited_by(engine, 1)[0], (std::set<int32_t>{0, 1}));
}

TEST_F(RouteReplay, RefusesATraceOfAnotherShape) {
    const size_t layers = geometry_.layers.size();
    write_trace(trace_, made_up_routing(2, layers + 1, n_expert_, top_k_), n_expert_, top_k_);
    EXPECT_NE(refusal(options()).find("3 expert layers, the model has 2"), std::string::npos) << refusal(options());
    write_trace(trace_, made_up_routing(2, layers, 8, top_k_), 8, top_k_);
    EXPECT_NE(refusal(options()).find("8 experts per layer, the model has 16"), std::string::npos)
        << refusal(options());

    write_trace(trace_, made_up_routing(2, layers, n_expert_, top_k_), n_expert_, top_k_);
    engine::Options other_top_k = options();
    other_top_k.n_expert_used = 3;
    EXPECT_NE(refusal(other_top_k).find("4 experts per token, the model has 3"), std::string::npos)
        << refusal(other_top_k);
    engine::Options not_streamed = options();
    not_streamed.stream = false;
    EXPECT_NE(refusal(not_streamed).find("--moe-stream"), std::string::npos) << refusal(not_streamed);

    Routing incomplete = made_up_routing(2, layers, n_expert_, top_k_);
    incomplete[1][1].clear();
    write_trace(trace_, incomplete, n_expert_, top_k_);
    EXPECT_NE(refusal(options()).find("from 1 to 2 rows"), std::string::npos) << refusal(options());
    incomplete[1][1] = {1};
    write_trace(trace_, incomplete, n_expert_, top_k_);
    EXPECT_NE(refusal(options()).find("decoded token 1 has 1 experts in layer 1"), std::string::npos)
        << refusal(options());
    write_trace(trace_, made_up_routing(2, layers, n_expert_, top_k_), n_expert_, top_k_, incomplete);
    EXPECT_NE(refusal(options()).find("prompt token 1 has 1 experts in layer 1"), std::string::npos)
        << refusal(options());
}

TEST(ExpertCount, CanBeLoweredForStreamedAndResidentRunsAlike) {
    engine::Options resident = gate_options(kModel, false);
    engine::Options streamed = gate_options(kModel, true);
    const std::vector<float> all = drive(engine::Engine(resident));
    resident.n_expert_used = 2;
    streamed.n_expert_used = 2;
    std::string notes;
    streamed.on_note = [&](const std::string &note) { notes += note; };
    const std::vector<float> expected = drive(engine::Engine(resident));
    EXPECT_EQ(first_difference(drive(engine::Engine(streamed)), expected), -1);
    EXPECT_NE(first_difference(all, expected), -1);
    EXPECT_NE(notes.find("lossy"), std::string::npos) << notes;
    resident.resident = true;
    EXPECT_EQ(first_difference(drive(engine::Engine(resident)), expected), -1);
}

TEST(ExpertCount, IsRefusedAboveTheExpertsOfTheModel) {
    engine::Options options = gate_options(kModel, true);
    options.n_expert_used = 17;
    EXPECT_NE(refusal(options).find("--n-expert-used"), std::string::npos) << refusal(options);
}

}  // namespace
}  // namespace bmoe::gates
