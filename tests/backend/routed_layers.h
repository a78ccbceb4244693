// Layers of small experts behind routers of their own, in graphs like llama.cpp's: for tests of what changes the routing.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/backend/small_experts.h"

namespace bmoe::backend::test {

// What a layer's graph looks like.
struct Layout {
    bool biases = false;      // added to each product, by expert
    bool factors = false;     // each product is multiplied by one, by expert
    bool normalised = false;  // the weights of the selected experts sum to 1
    bool no_flow = false;     // a single token's products are computed one after the other
    bool two_splits = false;  // the product by the down experts comes in a split of its own
};

class RoutedLayers {
  public:
    RoutedLayers(const Shape &shape, const StoreOptions &options, const Layout &layout = {},
                 const WrapFile &wrap = nullptr);
    ~RoutedLayers();

    ExpertStore &store() { return experts_.store(); }
    const Shape &shape() const { return experts_.shape(); }

    struct Visit {
        ggml_status status = GGML_STATUS_SUCCESS;
        std::vector<int32_t> router_ids, ids;        // selected, and as they were when the split was done
        std::vector<float> router_weights, weights;  // likewise
        std::vector<float> out;  // rows of weighted experts' outputs, rank after rank, token after token
    };
    // Through a layer, where the router's logits are `logits`: experts x tokens.
    Visit visit(SplitExecutor &executor, uint32_t layer, const std::vector<float> &logits);

    // Fails the test unless `visit`, the last one made of `layer`, was computed with its experts and weights: equal bits to a
    // resident run with them, and 0 where the weight is 0.
    void expect_right(const Visit &visit, uint32_t layer);

    std::vector<float> random_logits(uint32_t n_tokens, float deviation);

    // From now on the store knows routers that select what those of the graphs like least.
    void reverse_known_routers();

  private:
    struct Graph;
    ggml_tensor *scale(ggml_tensor *product, const char *projection, uint32_t layer, Graph &graph) const;
    ggml_tensor *bias(ggml_tensor *product, const char *projection, uint32_t layer, Graph &graph) const;
    void add_experts(Graph &graph, uint32_t layer, bool streamed) const;

    Layout layout_;
    SmallExperts experts_;
    std::mt19937 random_{19};
    ggml_backend_t cpu_;
    ggml_context *context_ = nullptr;  // of routers, factors and biases
    ggml_backend_buffer_t buffer_ = nullptr;
    std::vector<ggml_tensor *> routers_, known_routers_;  // expert e's logit is the input's element e
    std::vector<float> input_;                            // of the last visit
};

}  // namespace bmoe::backend::test
