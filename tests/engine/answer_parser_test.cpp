#include "engine/answer_parser.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "engine/answer_format.h"
#include "log.h"
#include "tests/engine/llama_templates.h"

namespace bmoe::engine::test {
namespace {

struct Answer {
    std::string reasoning;
    std::string content;
    ChatMessage message;
    bool broke_format = false;
};

std::shared_ptr<const AnswerFormat> format_of(const ChatTemplate &chat) {
    const ChatMessage question{"user", "Why?"};
    return chat.render({&question, 1}).format;
}

// As a model writes it, in pieces of a few bytes.
Answer read(const std::shared_ptr<const AnswerFormat> &format, const std::string &text, size_t piece) {
    AnswerParser parser(format);
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
    return answer;
}

void expect(const ChatTemplate &chat, const std::string &text, const std::string &reasoning,
            const std::string &content) {
    for (const size_t piece : {1, 3, 1000}) {
        const Answer answer = read(format_of(chat), text, piece);
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

TEST(AnswerParser, ShowsWhatFollowsABreakOfTheFormatAsItWasWritten) {
    const std::string source = llama_template("openai-gpt-oss-120b");
    if (source.empty()) GTEST_SKIP();
    const ChatTemplate chat(source);
    const std::string reasoning = "<|channel|>analysis<|message|>Hard to say.";
    for (const std::string rest : {"<|end|>Because größer.", "<|end|><|start|>user<|message|>Because."}) {
        for (const size_t piece : {1, 3}) {
            const Answer answer = read(format_of(chat), reasoning + rest, piece);
            EXPECT_EQ(answer.reasoning, "Hard to say.");
            EXPECT_EQ(answer.content, rest);
            EXPECT_EQ(answer.message.reasoning, answer.reasoning);
            EXPECT_EQ(answer.message.content, answer.content);
            EXPECT_TRUE(answer.broke_format);
        }
    }
    // What is whole or cut off breaks nothing.
    for (const std::string rest : {"", "<|en", "<|end|>", "<|end|><|start|>assis",
                                   "<|end|><|start|>assistant<|channel|>final<|message|>Because.",
                                   "<|end|><|start|>assistant<|channel|>final<|message|>Because.<|end|>"}) {
        EXPECT_FALSE(read(format_of(chat), reasoning + rest, 3).broke_format) << rest;
    }
}

bool is_of_format(const AnswerFormat &format, const std::string &text) {
    try {
        common_chat_parse(text, false, format.parser);
        return true;
    } catch (const std::exception &) {
        return false;
    }
}

// llama.cpp's parser stops there, and counts what it has read as all there is.
TEST(AnswerParser, ShowsWhatFollowsAClosingMarkerThatNothingOpened) {
    const std::string gemma = llama_template("google-gemma-4-31B-it");
    const std::string harmony = llama_template("openai-gpt-oss-120b");
    if (gemma.empty() || harmony.empty()) GTEST_SKIP();
    const std::string thought = "<|channel>thought\nHard to say.<channel|>";
    const std::string analysis = "<|channel|>analysis<|message|>Hard to say.<|end|><|start|>assistant";
    const std::string final = "<|channel|>final<|message|>Because.";
    struct Case {
        const std::string &source;
        std::string start, rest;
    };
    for (const Case &broken :
         {Case{gemma, thought + "Because.", "<channel|>And größer."},
          Case{harmony, analysis + final, "<|end|>And größer."},
          Case{harmony, analysis + final, "<|end|><|start|>assistant<|channel|>final<|message|>And größer."}}) {
        for (const size_t piece : {1, 3, 1000}) {
            const Answer answer = read(format_of(ChatTemplate(broken.source)), broken.start + broken.rest, piece);
            EXPECT_EQ(answer.reasoning, "Hard to say.") << broken.rest;
            EXPECT_EQ(answer.content, "Because." + broken.rest);
            EXPECT_EQ(answer.message.content, answer.content);
            EXPECT_TRUE(answer.broke_format) << broken.rest;
        }
    }
    const std::string call =
        "<|end|><|start|>assistant to=browser.search<|message|>größer<|end|>";  // nobody offered that
    const Answer called =
        read(format_of(ChatTemplate(harmony)), "<|channel|>analysis<|message|>Hard to say." + call, 3);
    EXPECT_EQ(called.reasoning, "Hard to say.");
    EXPECT_EQ(called.content, call);
    EXPECT_TRUE(called.broke_format);
    // Markers alone are no text.
    for (const Case &whole :
         {Case{gemma, thought + "Because.", "<channel|>"},
          Case{gemma, thought + "Because.", "<|channel>thought\n<channel|>"},
          Case{harmony, analysis + final, "<|end|>"}, Case{harmony, analysis + final, "<|end|><|start|>assis"},
          Case{harmony, analysis + final, "\xC3"}}) {
        const Answer answer = read(format_of(ChatTemplate(whole.source)), whole.start + whole.rest, 3);
        EXPECT_FALSE(answer.broke_format) << whole.rest;
        EXPECT_EQ(answer.reasoning, "Hard to say.") << whole.rest;
        EXPECT_EQ(answer.content, "Because.") << whole.rest;
    }
}

TEST(AnswerParser, ShowsAMarkersBeginningThatNothingFollows) {
    const std::string gemma = llama_template("google-gemma-4-31B-it");
    const std::string harmony = llama_template("openai-gpt-oss-120b");
    if (gemma.empty() || harmony.empty()) GTEST_SKIP();
    expect(ChatTemplate(gemma), "1 <", "", "1 <");
    expect(ChatTemplate(gemma), "Because.<chan", "", "Because.<chan");
    expect(ChatTemplate(harmony), "<|channel|>analysis<|message|>1 <", "1 <", "");
}

// Whatever markers a model puts where, in the format of every model that llama.cpp has a template of.
TEST(AnswerParser, LosesNothingOfAnswersThatBreakTheFormat) {
    common_log_set_verbosity_thold(LOG_LEVEL_OUTPUT);
    const std::string markers[] = {"<think>",
                                   "</think>",
                                   "<|channel|>analysis<|message|>",
                                   "<|channel|>final<|message|>",
                                   "<|start|>assistant",
                                   "<|end|>",
                                   "<|channel>thought\n",
                                   "<channel|>",
                                   "[THINK]",
                                   "[/THINK]",
                                   "<tool_call>",
                                   "[TOOL_CALLS]",
                                   "</thi",
                                   "<|"};
    std::vector<std::string> texts;
    for (const std::string &a : markers) {
        for (const std::string &b : markers) {
            texts.push_back(cat(a, "alpha one", b, "beta two"));
            texts.push_back(cat("alpha one", a, "beta two", b));
        }
    }
    size_t broken = 0;
    size_t after_reasoning = 0;
    size_t read_over = 0;
    for (const auto &file : std::filesystem::directory_iterator(BMOE_TEMPLATES)) {
        if (file.path().extension() != ".jinja") {
            continue;
        }
        const auto format = format_of(ChatTemplate(llama_template(file.path().stem())));
        for (const std::string &text : texts) {
            const bool of_format = is_of_format(*format, text);
            for (const size_t piece : {3, 1000}) {
                const Answer answer = read(format, text, piece);
                const std::string shown = answer.reasoning + answer.content;
                EXPECT_NE(shown.find("alpha one"), std::string::npos) << file.path().stem() << ": " << text;
                EXPECT_NE(shown.find("beta two"), std::string::npos) << file.path().stem() << ": " << text;
                if (of_format) {
                    read_over += answer.broke_format ? 1 : 0;
                    continue;
                }
                EXPECT_TRUE(answer.broke_format) << file.path().stem() << ": " << text;
                EXPECT_TRUE(text.ends_with(answer.content)) << file.path().stem() << ": " << text;
                ++broken;
                after_reasoning += answer.reasoning.empty() ? 0 : 1;
            }
        }
    }
    EXPECT_GT(broken, 0U);
    EXPECT_GT(after_reasoning, 0U);
    EXPECT_GT(read_over, 0U);
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
