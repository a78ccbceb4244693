// Requests of a session: one line of JSON each (docs/session.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace bmoe::cli {

struct GenerateRequest {
    std::string id;
    // One of the two: text to continue, or a conversation for the model's chat template, as role and content.
    std::string prompt;
    std::vector<std::pair<std::string, std::string>> messages;
    // Empty: what the command line says.
    std::optional<uint32_t> max_tokens;
    std::optional<float> temperature;
    std::optional<int32_t> top_k;
    std::optional<float> top_p;
    std::optional<float> min_p;
    std::optional<uint32_t> seed;
    std::vector<std::string> stop;  // none of them empty
};

struct ResetRequest {
    std::optional<std::string> id;
};

struct CancelRequest {
    std::optional<std::string> id;  // empty: whatever is under way
};

struct CloseRequest {
    std::optional<std::string> id;
};

// What cannot be done, and why, in a sentence.
struct BadRequest {
    std::optional<std::string> id;  // where the line has one
    std::string message;
};

using Request = std::variant<GenerateRequest, ResetRequest, CancelRequest, CloseRequest, BadRequest>;

Request parse_request(std::string_view line);

}  // namespace bmoe::cli
