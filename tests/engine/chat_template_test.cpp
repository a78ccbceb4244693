#include "engine/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/engine/llama_templates.h"

namespace bmoe::engine::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const std::string kQwen3 = "Qwen-Qwen3-0.6B";
const std::string kHarmony = "openai-gpt-oss-120b";

std::string prompt(const ChatTemplate &chat, const std::vector<ChatMessage> &messages) {
    return chat.render(messages).prompt;
}

const std::vector<ChatMessage> kQuestion = {{"user", "Why?"}};
const std::vector<ChatMessage> kTwoTurns = {
    {"user", "Why?"}, {"assistant", "Because.", "Hard to say."}, {"user", "Really?"}};

TEST(ChatTemplate, RendersAWholeConversationWithoutOldReasoning) {
    for (const std::string &name : {kQwen3, kHarmony}) {
        const std::string source = llama_template(name);
        if (source.empty()) GTEST_SKIP() << "no template " << name;
        const ChatTemplate chat(source);
        const std::string text = prompt(chat, kTwoTurns);
        EXPECT_LT(text.find("Why?"), text.find("Because.")) << text;
        EXPECT_LT(text.find("Because."), text.find("Really?")) << text;
        EXPECT_THAT(text, Not(HasSubstr("Hard to say"))) << name;
        EXPECT_THAT(text, HasSubstr(prompt(chat, kQuestion).substr(0, 20))) << name;
    }
}

TEST(ChatTemplate, AsksTheTemplateForAnAnswerWithoutReasoning) {
    const std::string source = llama_template(kQwen3);
    if (source.empty()) GTEST_SKIP();
    ChatTemplate chat(source);
    EXPECT_THAT(prompt(chat, kQuestion), Not(HasSubstr("</think>")));
    EXPECT_TRUE(chat.turn_off_reasoning());
    EXPECT_THAT(prompt(chat, kQuestion), EndsWith("<think>\n\n</think>\n\n"));
    EXPECT_THAT(prompt(chat, kTwoTurns), EndsWith("<think>\n\n</think>\n\n"));
}

TEST(ChatTemplate, TriesOtherNamesOfTheSwitch) {
    const std::string chatml =
        "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}";
    ChatTemplate budget(chatml +
                        "{% if thinking_budget is defined and thinking_budget == 0 %}[quick]{% endif %}{% endif %}");
    EXPECT_TRUE(budget.turn_off_reasoning());
    EXPECT_THAT(prompt(budget, kQuestion), EndsWith("[quick]"));
    // Off unless asked for: nothing to do.
    ChatTemplate quiet(chatml + "{% if thinking is defined and thinking %}[think]{% endif %}{% endif %}");
    EXPECT_TRUE(quiet.turn_off_reasoning());
    EXPECT_THAT(prompt(quiet, kQuestion), EndsWith("assistant\n"));
    ChatTemplate none(chatml + "{% endif %}");
    EXPECT_FALSE(none.turn_off_reasoning());
}

TEST(ChatTemplate, OpensTheAnswersChannelOfHarmony) {
    const std::string source = llama_template(kHarmony);
    if (source.empty()) GTEST_SKIP();
    ChatTemplate chat(source);
    EXPECT_THAT(prompt(chat, kQuestion), EndsWith("<|start|>assistant"));
    EXPECT_TRUE(chat.turn_off_reasoning());
    EXPECT_THAT(prompt(chat, kTwoTurns), EndsWith("<|start|>assistant<|channel|>final<|message|>"));
}

TEST(ChatTemplate, SaysWhatATemplateRefuses) {
    EXPECT_THROW(ChatTemplate("{% for %}"), Error);
    const ChatTemplate chat("{{ raise_exception('not this') }}");
    try {
        prompt(chat, kQuestion);
        FAIL();
    } catch (const Error &error) {
        EXPECT_THAT(error.what(), HasSubstr("chat template"));
    }
}

}  // namespace
}  // namespace bmoe::engine::test
