#include "gates/run_model.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace bmoe::gates {

namespace {

constexpr uint32_t kContext = 1280;

// A fixed pseudo-random text: routing must vary from token to token.
std::vector<llama_token> prompt_tokens(uint32_t n, int32_t vocabulary) {
    std::vector<llama_token> tokens;
    uint32_t state = 12345;
    for (uint32_t i = 0; i < n; ++i) {
        state = state * 1664525 + 1013904223;
        tokens.push_back(static_cast<llama_token>((state >> 8) % static_cast<uint32_t>(std::min(vocabulary, 256))));
    }
    return tokens;
}

class Batch {
  public:
    explicit Batch(int32_t capacity) : batch_(llama_batch_init(capacity, 0, 1)) {}
    ~Batch() { llama_batch_free(batch_); }
    Batch(const Batch &) = delete;
    Batch &operator=(const Batch &) = delete;
    void add(llama_token token, llama_pos position) {
        const int32_t i = batch_.n_tokens++;
        batch_.token[i] = token;
        batch_.pos[i] = position;
        batch_.n_seq_id[i] = 1;
        batch_.seq_id[i][0] = 0;
        batch_.logits[i] = 1;
    }
    llama_batch &get() { return batch_; }

  private:
    llama_batch batch_;
};

int32_t vocabulary_of(llama_context *context) {
    return llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
}

void decode(llama_context *context, Batch &batch, std::vector<float> &logits) {
    if (const int status = llama_decode(context, batch.get()); status != 0) {
        throw Error(cat("decode: status ", status));
    }
    const int32_t vocabulary = vocabulary_of(context);
    for (int32_t i = 0; i < batch.get().n_tokens; ++i) {
        const float *row = llama_get_logits_ith(context, i);
        logits.insert(logits.end(), row, row + vocabulary);
    }
}

}  // namespace

engine::Options gate_options(const std::string &model, bool stream) {
    engine::Options options;
    options.model = model;
    options.stream = stream;
    options.repack = false;
    options.n_ctx = kContext;
    options.threads = 2;
    options.cache_bytes = 0;
    options.all_logits = true;
    return options;
}

std::vector<float> run_script(engine::Engine &engine, const Script &script) {
    engine.reset();
    try {
        return run_script(engine.context(), script);
    } catch (const Error &error) {
        const auto reason = engine.store() != nullptr ? engine.store()->take_error() : std::nullopt;
        throw Error(cat(error.what(), " ", reason.value_or("")));
    }
}

std::vector<float> run_script(llama_context *context, const Script &script) {
    const int32_t vocabulary = vocabulary_of(context);
    const std::vector<llama_token> prompt = prompt_tokens(script.prompt_tokens, vocabulary);
    const uint32_t n_batch = llama_n_batch(context);
    std::vector<float> logits;
    llama_pos position = 0;
    for (size_t at = 0; at < prompt.size(); at += n_batch) {
        const size_t n = std::min<size_t>(n_batch, prompt.size() - at);
        Batch batch(static_cast<int32_t>(n));
        for (size_t i = 0; i < n; ++i) {
            batch.add(prompt[at + i], position++);
        }
        decode(context, batch, logits);
    }
    for (uint32_t i = 0; i < script.decode_tokens; ++i) {
        const auto last = logits.end() - vocabulary;
        Batch batch(1);
        batch.add(static_cast<llama_token>(std::max_element(last, logits.end()) - last), position++);
        decode(context, batch, logits);
    }
    return logits;
}

std::string folder() { return BMOE_TINY_MODELS; }

std::vector<std::string> models_with_experts(Shards shards) {
    std::ifstream file(folder() + "/cases.json");
    std::vector<std::string> names;
    for (const auto &entry : nlohmann::json::parse(file)) {
        if (!entry.at("experts").get<bool>()) {
            continue;
        }
        names.push_back(entry.at("file").get<std::string>());
        if (shards == Shards::kWith && entry.contains("shards")) {
            names.push_back(entry.at("shards").at(1).get<std::string>());  // any shard's path will do
        }
    }
    return names;
}

std::string test_name(std::string file) {
    for (char &c : file) {
        c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    }
    return file;
}

int64_t first_difference(const std::vector<float> &a, const std::vector<float> &b) {
    if (a.size() != b.size()) {
        return static_cast<int64_t>(std::min(a.size(), b.size()));
    }
    for (size_t i = 0; i < a.size(); ++i) {
        if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
            return static_cast<int64_t>(i);
        }
    }
    return -1;
}

}  // namespace bmoe::gates
