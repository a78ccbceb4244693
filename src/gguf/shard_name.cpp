#include "gguf/shard_name.h"

#include <charconv>
#include <cstdio>
#include <string_view>

namespace bmoe::gguf {
namespace {

// Takes `suffix` and the five digits before it off the end of `text`.
std::optional<uint32_t> take_number(std::string_view &text, std::string_view suffix) {
    constexpr size_t kDigits = 5;
    if (!text.ends_with(suffix) || text.size() < suffix.size() + kDigits) {
        return std::nullopt;
    }
    text.remove_suffix(suffix.size());
    const std::string_view digits = text.substr(text.size() - kDigits);
    uint32_t number = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + kDigits, number);
    if (failed != std::errc{} || end != digits.data() + kDigits) {
        return std::nullopt;
    }
    text.remove_suffix(kDigits);
    return number;
}

}  // namespace

std::string ShardName::sibling(uint32_t other) const {
    char suffix[48];
    std::snprintf(suffix, sizeof(suffix), "-%05u-of-%05u.gguf", other, count);
    return prefix + suffix;
}

std::optional<ShardName> parse_shard_name(const std::string &path) {
    std::string_view rest = path;
    const auto count = take_number(rest, ".gguf");
    const auto number = count ? take_number(rest, "-of-") : std::nullopt;
    if (!number || !rest.ends_with('-') || *number < 1 || *number > *count) {
        return std::nullopt;
    }
    rest.remove_suffix(1);
    return ShardName{std::string(rest), *number, *count};
}

}  // namespace bmoe::gguf
