// Generated text in pieces that can be passed on as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bmoe::engine {

// Tokens end anywhere: a piece is held back from where it could be the beginning of a UTF-8 character, or of a text that
// ends the answer. Not thread-safe.
class TextDeltas {
  public:
    // `stops`: texts that end the answer and do not belong to it; none empty.
    explicit TextDeltas(std::vector<std::string> stops = {}) : stops_(std::move(stops)) {}

    // The text that is certain now; may be empty. Bytes that are no UTF-8 become U+FFFD. Not after stopped().
    std::string add(std::string_view piece);

    // What is still held back when nothing follows any more.
    std::string finish();

    // One of the stops has come; the text before it was passed on.
    bool stopped() const { return !stop_.empty(); }
    const std::string &stop() const { return stop_; }  // that one

  private:
    bool find_stop();
    size_t certain() const;

    std::vector<std::string> stops_;
    std::string held_;
    std::string stop_;
};

}  // namespace bmoe::engine
