// A layer of small experts, streamed and resident, for tests that run ggml graphs without a language model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/expert_store.h"
#include "backend/split_executor.h"
#include "ggml-backend.h"
#include "gguf/model_file.h"
#include "tests/support/scratch.h"

namespace bmoe::backend::test {

struct Shape {
    int64_t n_embd = 64;
    int64_t n_ff = 96;
    uint32_t n_expert = 8;
    uint32_t top_k = 2;
    uint32_t n_layers = 3;
    ggml_type type = GGML_TYPE_Q8_0;
};

// Puts something between the store and its files.
using WrapFile = std::function<std::unique_ptr<io::RandomAccessFile>(std::unique_ptr<io::RandomAccessFile>)>;

// Layers of gate, up and down experts: a GGUF file on disk, a store over it, and the same weights in memory. With lookahead,
// routers that have nothing to do with the routing: their guesses are right now and then.
class SmallExperts {
  public:
    SmallExperts(const Shape &shape, const StoreOptions &options, const WrapFile &wrap = nullptr);
    ~SmallExperts();

    ExpertStore &store() { return *store_; }
    const Shape &shape() const { return shape_; }

    // A random routing of `n_tokens` tokens and their activations through layer `layer`, streamed and resident.
    struct Visit {
        std::vector<float> streamed;
        std::vector<float> resident;
        ggml_status status = GGML_STATUS_SUCCESS;
    };
    Visit visit(SplitExecutor &executor, uint32_t layer, uint32_t n_tokens, std::mt19937 &random);

    // Each product in a graph split of its own from now on.
    bool in_splits = false;

    // Called right before and right after each streamed computation, if set.
    std::function<void()> before_compute;
    std::function<void()> after_compute;

  private:
    void make_routers();
    ggml_tensor *weight(ggml_context *context, const char *projection, uint32_t layer) const;

    Shape shape_;
    bmoe::test::Scratch scratch_;
    std::unique_ptr<gguf::ModelFile> file_;
    std::unique_ptr<ExpertStore> store_;
    ggml_context *streamed_ = nullptr;
    ggml_context *resident_ = nullptr;
    ggml_context *routers_ = nullptr;
    ggml_backend_buffer_t routers_buffer_ = nullptr;
    ggml_backend_buffer_t streamed_buffer_ = nullptr;
    ggml_backend_buffer_t resident_buffer_ = nullptr;
    ggml_backend_t cpu_ = nullptr;
};

}  // namespace bmoe::backend::test
