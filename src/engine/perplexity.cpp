#include "engine/perplexity.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"

namespace bmoe::engine {

namespace {

// Negative log-probability of `token`, of all of the vocabulary.
double nll(const float *logits, int32_t n_vocab, llama_token token) {
    const double highest = *std::max_element(logits, logits + n_vocab);
    double sum = 0;
    for (int32_t i = 0; i < n_vocab; ++i) {
        sum += std::exp(logits[i] - highest);
    }
    return std::log(sum) - (logits[token] - highest);
}

// Mean and its standard error of what was added (Welford's method).
class Mean {
  public:
    void add(double value) {
        ++count_;
        const double off = value - mean_;
        mean_ += off / static_cast<double>(count_);
        squares_ += off * (value - mean_);
    }
    uint64_t count() const { return count_; }
    double mean() const { return mean_; }
    double error() const {
        return count_ > 1 ? std::sqrt(squares_ / static_cast<double>(count_ - 1) / static_cast<double>(count_)) : 0;
    }

  private:
    uint64_t count_ = 0;
    double mean_ = 0;
    double squares_ = 0;
};

}  // namespace

double Perplexity::value() const { return std::exp(mean_nll); }

double Perplexity::error() const { return value() * nll_error; }

Perplexity measure_perplexity(Engine &engine, std::span<const llama_token> text, uint64_t most,
                              const std::function<void(uint64_t)> &on_token) {
    const llama_vocab *vocab = llama_model_get_vocab(engine.model());
    const llama_token begin_of_text = llama_vocab_get_add_bos(vocab) ? llama_vocab_bos(vocab) : LLAMA_TOKEN_NULL;
    // With room for a token that begins it.
    const size_t window = std::min<size_t>(llama_n_ctx(engine.context()) - 1, text.size());
    const size_t unscored = std::min<size_t>(kUnscored, window / 4);
    if (window < 2) {
        throw Error("the text is too short to measure a perplexity: it needs at least two tokens");
    }
    const int32_t n_vocab = llama_vocab_n_tokens(vocab);
    Perplexity result;
    Mean mean;
    const auto decode = [&](llama_token token) {
        const auto start = std::chrono::steady_clock::now();
        engine.decode({&token, 1});
        result.stats.step_seconds.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        ++result.stats.generated;
    };
    try {
        const IntervalScope scope(engine, result.stats.decode);
        // A rest of which nothing would be scored is left out.
        for (size_t begin = 0; begin + unscored + 1 < text.size() && mean.count() < most; begin += window) {
            engine.reset();
            if (begin > 0 && begin_of_text != LLAMA_TOKEN_NULL) {
                decode(begin_of_text);
            }
            const size_t end = std::min(begin + window, text.size());
            for (size_t i = begin; i + 1 < end && mean.count() < most; ++i) {
                decode(text[i]);
                if (i - begin >= unscored) {
                    mean.add(nll(llama_get_logits_ith(engine.context(), -1), n_vocab, text[i + 1]));
                    on_token(mean.count());
                }
            }
        }
    } catch (const Cancelled &) {
        result.stats.stop = StopReason::kCancelled;
    }
    result.scored = mean.count();
    result.mean_nll = mean.mean();
    result.nll_error = mean.error();
    return result;
}

}  // namespace bmoe::engine
