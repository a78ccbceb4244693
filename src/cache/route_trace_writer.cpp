#include "cache/route_trace_writer.h"

#include <algorithm>
#include <charconv>

namespace bmoe::cache {

namespace {

template <typename T>
void append(std::string &row, T value, char end) {
    char text[32];
    row.append(text, std::to_chars(std::begin(text), std::end(text), value).ptr);
    row += end;
}

// Values in the header end at a blank.
std::string without_blanks(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c <= ' '; }, '_');
    return text;
}

}  // namespace

void RouteTraceWriter::begin(const RouteTraceHeader &header) {
    file_.write(cat("# route_trace v1\n# model=", without_blanks(header.model),
                    " arch=", without_blanks(header.architecture), " n_layer=", header.layers.size(),
                    " n_expert=", header.n_expert, " n_expert_used=", header.top_k, '\n'));
    for (size_t layer = 0; layer < header.layers.size(); ++layer) {
        const RouteTraceHeader::Layer &of = header.layers[layer];
        file_.write(cat("# layer=", layer, " expert_bytes=", of.expert_bytes, " block=", of.block,
                        n_scores_ > 0 ? cat(" scores=", of.has_scores ? 1 : 0) : "", '\n'));
        expert_bytes_.push_back(of.expert_bytes);
    }
    file_.write(
        cat("turn,phase,step,layer,slot,expert,weight,residency,expert_bytes", n_scores_ > 0 ? ",scores" : "", '\n'));
    known_.resize(header.n_expert);
    resident_.resize(header.n_expert);
}

void RouteTraceWriter::next_tokens(uint32_t turn, Phase phase, uint32_t step) {
    rows_.clear();
    turn_ = turn;
    phase_ = phase;
    step_ = step;
    n_tokens_ = 0;
}

void RouteTraceWriter::add(const TracedVisit &visit) {
    if (n_tokens_ == 0) {
        n_tokens_ = visit.n_tokens;
    }
    std::fill(resident_.begin(), resident_.end(), false);
    for (const int32_t expert : visit.resident) {
        resident_[static_cast<size_t>(expert)] = true;
    }
    known_ = resident_;
    for (uint32_t token = 0; token < visit.n_tokens; ++token) {
        add_row(visit, token);
    }
}

void RouteTraceWriter::add_row(const TracedVisit &visit, uint32_t token) {
    // A prompt's last layer is computed only for the tokens whose logits are wanted, its last.
    const uint32_t step = step_ + n_tokens_ - visit.n_tokens + token;
    for (uint32_t rank = 0; rank < visit.top_k; ++rank) {
        const size_t at = size_t{token} * visit.top_k + rank;
        const auto expert = static_cast<size_t>(visit.experts[at]);
        append(rows_, turn_, ',');
        append(rows_, phase_ == Phase::kPrefill ? 0 : 1, ',');
        append(rows_, step, ',');
        append(rows_, visit.layer, ',');
        append(rows_, rank, ',');
        append(rows_, visit.experts[at], ',');
        append(rows_, visit.weights.empty() ? -1.0F : visit.weights[at], ',');
        append(rows_, resident_[expert] ? 1 : 0, ',');
        const bool is_read = visit.used[at] == visit.experts[at] && !known_[expert];
        append(rows_, is_read ? expert_bytes_[visit.layer] : 0, n_scores_ > 0 ? ',' : '\n');
        known_[expert] = known_[expert] || is_read;
        if (n_scores_ == 0) {
            continue;
        }
        const auto scores = rank == 0 && !visit.scores.empty()
                                ? visit.scores.subspan(size_t{token} * n_scores_, n_scores_)
                                : std::span<const RouterScore>{};
        for (const RouterScore &score : scores) {
            if (score.expert >= 0) {
                append(rows_, score.expert, ':');
                append(rows_, score.score, ' ');
            }
        }
        if (rows_.back() == ' ') {
            rows_.pop_back();
        }
        rows_ += '\n';
    }
}

void RouteTraceWriter::commit() {
    file_.write(rows_);
    rows_.clear();
}

}  // namespace bmoe::cache
