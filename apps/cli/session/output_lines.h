// Lines that a session writes: a word and a JSON object (docs/session.md).
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/text_output.h"

namespace bmoe::cli {

// Of the contract; a change that a client must know of makes it another.
constexpr int kSessionProtocol = 1;

// In the order in which fields are added.
using Json = nlohmann::ordered_json;

// With its end. Text in `body` that is no UTF-8 becomes U+FFFD.
std::string output_line(std::string_view word, const Json &body);

// Of a request that may have none.
Json json_id(const std::optional<std::string> &id);

// `code`: one of docs/session.md.
Json error_body(const std::optional<std::string> &id, std::string_view code, std::string_view message, bool fatal);

// To six decimals; null where it is not a number or negative, which stands for what was not measured.
Json measured(double value);

// Standard output, shared by threads.
class OutputLines {
  public:
    void write(std::string_view word, const Json &body);
    void error(const std::optional<std::string> &id, std::string_view code, std::string_view message) {
        write("BMOE_ERROR", error_body(id, code, message, false));
    }
    void fatal(std::string_view code, std::string_view message) {
        write("BMOE_ERROR", error_body({}, code, message, true));
    }

    // As of TextOutput.
    bool failed() const;
    int report_failure() const;  // as TextOutput's

  private:
    mutable std::mutex mutex_;
    TextOutput output_;
};

}  // namespace bmoe::cli
