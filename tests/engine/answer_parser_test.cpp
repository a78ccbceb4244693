#include "engine/answer_parser.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "tests/engine/llama_templates.h"

namespace bmoe::engine::test {
namespace {

struct Answer {
    std::string reasoning;
    std::string content;
    ChatMessage message;
    bool broke_format = false;
    bool ended = false;
};

// As a model writes it, in pieces of a few bytes.
Answer read(const ChatTemplate &chat, const std::string &text, size_t piece) {
    const ChatMessage question{"user", "Why?"};
    AnswerParser parser(chat.render({&question, 1}).format);
    Answer answer;
    const auto take = [&](const AnswerParser::Part &part) {
        answer.reasoning += part.reasoning;
        answer.content += part.content;
    };
    for (size_t at = 0; at < text.size(); at += piece) {
        take(parser.add(text.substr(at, piece)));
    }
    take(parser.finish());
    answer.message = parser.message();
    answer.broke_format = parser.broke_format();
    answer.ended = parser.ended();
    return answer;
}

void expect(const ChatTemplate &chat, const std::string &text, const std::string &reasoning,
            const std::string &content) {
    for (const size_t piece : {1, 3, 1000}) {
        const Answer answer = read(chat, text, piece);
        EXPECT_EQ(answer.reasoning, reasoning) << text;
        EXPECT_EQ(answer.content, content) << text;
        EXPECT_EQ(answer.message.role, "assistant");
        EXPECT_EQ(answer.message.reasoning, answer.reasoning);
        EXPECT_EQ(answer.message.content, answer.content);
    }
}

TEST(AnswerParser, TellsReasoningBetweenTags) {
    const std::string source = llama_template("Qwen-Qwen3-0.6B");
    if (source.empty()) GTEST_SKIP();
    ChatTemplate chat(source);
    expect(chat, "<think>\nHard to say.\n</think>\n\nBecause größer.", "Hard to say.\n", "Because größer.");
    expect(chat, "Because.", "", "Because.");
    // Cut off.
    expect(chat, "<think>\nHard to", "Hard to", "");
    EXPECT_TRUE(chat.turn_off_reasoning());
    expect(chat, "Because.", "", "Because.");
}

TEST(AnswerParser, TellsTheChannelsOfHarmony) {
    const std::string source = llama_template("openai-gpt-oss-120b");
    if (source.empty()) GTEST_SKIP();
    ChatTemplate chat(source);
    expect(chat,
           "<|channel|>analysis<|message|>Hard to say.<|end|><|start|>assistant<|channel|>final<|message|>Because.",
           "Hard to say.", "Because.");
    EXPECT_TRUE(chat.turn_off_reasoning());
    expect(chat, "Because.", "", "Because.");
}

TEST(AnswerParser, ShowsTextThatTheFormatDoesNotKnow) {
    const std::string source = llama_template("openai-gpt-oss-120b");
    if (source.empty()) GTEST_SKIP();
    expect(ChatTemplate(source), "no channel at all", "", "no channel at all");
}

TEST(AnswerParser, ShowsReasoningAsItComes) {
    const std::string source = llama_template("Qwen-Qwen3-0.6B");
    if (source.empty()) GTEST_SKIP();
    const ChatTemplate chat(source);
    const ChatMessage question{"user", "Why?"};
    AnswerParser parser(chat.render({&question, 1}).format);
    std::string reasoning = parser.add("<think>\nHard").reasoning;
    reasoning += parser.add(" to say").reasoning;
    EXPECT_EQ(reasoning, "Hard to say");
    EXPECT_EQ(parser.add(".\n</think>\n\nBec").content, "Bec");
    EXPECT_EQ(parser.add("ause").content, "ause");
}

}  // namespace
}  // namespace bmoe::engine::test
