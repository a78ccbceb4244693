#include "engine/skipped_text.h"

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "base/utf8.h"
#include "chat-peg-parser.h"

namespace bmoe::engine {

namespace {

constexpr const char *kSpace = " \t\r\n";

// What the parser matches letter by letter, longest first.
std::vector<std::string> words_of(const common_peg_arena &parser) {
    std::vector<std::string> words;
    for (size_t id = 0; id < parser.size(); ++id) {
        if (const auto *literal = std::get_if<common_peg_literal_parser>(&parser.get(id))) {
            words.push_back(literal->literal);
        } else if (const auto *until = std::get_if<common_peg_until_parser>(&parser.get(id))) {
            words.insert(words.end(), until->delimiters.begin(), until->delimiters.end());
        }
    }
    std::erase_if(words, [](const std::string &word) { return word.find_first_not_of(kSpace) == std::string::npos; });
    std::sort(words.begin(), words.end(), [](const auto &a, const auto &b) { return a.size() > b.size(); });
    return words;
}

// Bytes at the end of `text` that begin one of the words.
size_t begun(std::string_view text, const std::vector<std::string> &words) {
    size_t most = 0;
    for (const std::string_view word : words) {
        for (size_t n = std::min(text.size(), word.size() - 1); n > most; --n) {
            if (text.ends_with(word.substr(0, n))) {
                most = n;
            }
        }
    }
    return most;
}

bool is_cut_character(std::string_view text) {
    return text.size() < length_of_character(text.front()) &&
           std::all_of(text.begin() + 1, text.end(), continues_character);
}

// Nothing but words of the format, which may be cut off where the answer is.
bool is_format(std::string text, const std::vector<std::string> &words, bool is_end) {
    if (is_end) {
        text.resize(text.size() - begun(text, words));
    }
    for (const std::string &word : words) {
        for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at)) {
            text.replace(at, word.size(), 1, ' ');
        }
    }
    const size_t first = text.find_first_not_of(kSpace);
    return first == std::string::npos || (is_end && is_cut_character(std::string_view(text).substr(first)));
}

}  // namespace

SkippedText skipped_text(const AnswerFormat &format, const std::string &answer) {
    const common_peg_arena &parser = format.parser.parser;
    if (parser.empty()) {
        return {};  // all is content
    }
    const std::vector<std::string> words = words_of(parser);
    common_peg_parse_context context(format.parser.generation_prompt + answer, COMMON_PEG_PARSE_FLAG_LENIENT);
    const common_peg_parse_result result = parser.parse(context);
    if (result.fail()) {
        return {};
    }
    SkippedText skipped;
    bool in_reasoning = false;
    size_t at = format.parser.generation_prompt.size();
    const auto pass = [&](size_t end) {
        if (end > at) {
            const std::string text = context.input.substr(at, end - at);
            const bool is_end = end == context.input.size();
            if (is_format(text, words, false)) {
                return;
            }
            if (is_end && begun(text, words) == text.size()) {
                skipped.begun = text;
                skipped.begun_in_reasoning = in_reasoning;
            } else if (!is_end || !is_format(text, words, true)) {
                skipped.text += text;
            }
        }
    };
    context.ast.visit(result, [&](const common_peg_ast_node &node) {
        if (node.tag == common_chat_peg_builder::REASONING || node.tag == common_chat_peg_builder::CONTENT) {
            pass(node.start);
            at = std::max(at, node.end);
            in_reasoning = node.tag == common_chat_peg_builder::REASONING;
        }
    });
    pass(context.input.size());
    return skipped;
}

}  // namespace bmoe::engine
