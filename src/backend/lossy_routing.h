// Opt-in: experts that would have to be read are left out of a token's routing, or replaced by resident ones, within limits.
// The output changes. See cache/lossy_choice.h for the choice and for what mass is.
//
// The cache's policy goes on learning the router's own choice: it is what the router will want that is worth keeping, not what
// happened to be there. So an expert that is often dropped gains in the policy's eyes all the same, and it becomes resident when
// it is read once: for a token that gives it more weight, in a prompt, or ahead, when the disk idles.
//
// Reading ahead guesses as ever, and a guess that has begun to arrive when its layer is routed is not cold.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/router_gate.h"
#include "cache/geometry.h"
#include "cache/lossy_choice.h"
#include "cache/quality_budget.h"

struct ggml_tensor;

namespace bmoe::backend {

class RouterGuess;

struct LossyOptions {
    // F, 0..1: of a decoded token, experts that are not resident and have less than F / top_k of its router weight are dropped.
    // 0: none.
    double drop_cold = 0;
    // Also in prompts, and other batches of several tokens: there, experts that no token needs.
    bool drop_in_prefill = false;
    // The weights of the experts that are left are scaled so that their sum stays what it was.
    bool drop_renorm = false;
    // T: of a decoded token, experts of the lighter half that are not resident are replaced by the best one that is, if its
    // score is at least T times theirs. 0: none. Above 1: none either, but scores are computed and compared.
    double substitute_cold = 0;
    // Percent of the router mass that may be forgone, averaged over 256 decoded tokens: chooses F and T from token to token.
    // 0: nothing is. Negative: no budget.
    double quality_budget = -1;
    // One line each, once, for what cannot be done with the model. Called on the thread that decodes. May be empty.
    std::function<void(const std::string &)> on_note = nullptr;

    bool any() const { return drop_cold > 0 || substitute_cold > 0 || quality_budget >= 0; }

    // What is forgone, in words; empty if nothing is.
    std::string describe() const;

    // Throws bmoe::Error, naming the flag of bmoe-cli, if a value is out of its range or two do not go together.
    void check() const;
};

// Of decoded tokens, and with drop_in_prefill of all.
struct LossyCounters {
    uint64_t routed = 0;       // experts that the router selected: tokens x layers x top_k
    uint64_t dropped = 0;      // of these
    uint64_t substituted = 0;  // of these
    uint64_t mass_routed = 0;  // tokens x layers
    double mass_dropped = 0;
    double mass_substituted = 0;
    uint64_t visits = 0;      // layers visited
    uint64_t unweighted = 0;  // of these: the router's weights were not known, so nothing could be done
    uint64_t searched = 0;    // of these: a substitute was looked for
    uint64_t unscored = 0;    // of these: the router's scores could not be computed, so there was none

    LossyCounters since(const LossyCounters &earlier) const;
    // Of all the router's weight, 0..1; -1 if nothing was routed.
    double share(double mass) const;
};

// Not thread-safe: the thread that decodes calls it.
class LossyRouting {
  public:
    // `routers` must outlive it. Throws as LossyOptions::check().
    LossyRouting(const LossyOptions &options, const cache::Geometry &geometry, RouterGuess &routers);

    // Of an expert split. `ids` (I32, top_k x tokens) and `weights` (F32, [1, top_k, tokens]) are in host memory; `weights` and
    // `input`, the experts' (F32), may be nullptr.
    struct Tensors {
        const ggml_tensor *ids = nullptr;
        const ggml_tensor *weights = nullptr;
        const ggml_tensor *input = nullptr;
    };
    using ResidencyOf = std::function<cache::Residency(int32_t expert)>;  // of the layer at hand

    // A visit of `layer` begins; `experts` and `weights` are the tensors' contents, token after token. Returns the experts to be
    // used, cache::kDropped for those that are not, and writes them and their weights to the tensors: in a dropped one's place
    // the token's heaviest expert, with weight 0. Its row of the experts' products must be made 0. Nothing is written if nothing
    // is forgone. The result is valid until the next call, or as long as `experts` is.
    std::span<const int32_t> apply(uint16_t layer, const Tensors &tensors, std::span<const int32_t> experts,
                                   std::span<const float> weights, const ResidencyOf &residency);

    // A prompt's last tokens may be a batch of one: what is decoded from now on is a prompt's, or not.
    void set_in_prompt(bool on) { in_prompt_ = on; }

    const LossyCounters &counters() const { return counters_; }

  private:
    bool begin_layer(uint16_t layer, size_t n_tokens);
    bool find_residency(uint16_t layer, std::span<const int32_t> experts, const ResidencyOf &residency);
    std::span<const float> scores(uint16_t layer, const Tensors &tensors, RouterGate gate);
    cache::Forgone choose(uint16_t layer, const Tensors &tensors, RouterGate gate, size_t top_k);
    void write(const Tensors &tensors, size_t top_k) const;
    void note_once(bool &noted, const std::string &line) const;

    LossyOptions options_;
    const cache::Geometry &geometry_;
    RouterGuess &routers_;
    cache::LossyChoice choice_;
    std::optional<cache::QualityBudget> budget_;
    cache::LossyLimits limits_;
    std::optional<uint16_t> last_layer_;  // in the current pass over the layers
    bool in_prompt_ = false;
    bool single_token_ = false;  // the current pass decodes one token

    std::vector<int32_t> experts_;
    std::vector<float> weights_;
    std::vector<cache::Residency> residency_;  // by expert
    std::vector<float> scores_;                // by expert
    std::vector<int32_t> selected_;
    LossyCounters counters_;
    bool noted_unweighted_ = false;
    bool noted_unscored_ = false;
};

}  // namespace bmoe::backend
