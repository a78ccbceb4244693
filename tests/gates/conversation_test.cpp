#include "engine/conversation.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "gates/run_model.h"

namespace bmoe::gates {
namespace {

using Tokens = std::vector<llama_token>;

std::string tiny(const std::string &name) { return std::string(BMOE_TINY_MODELS) + "/" + name + ".gguf"; }

engine::Options small_options(const std::string &model) {
    engine::Options options = gate_options(tiny(model), true);
    options.n_ctx = 512;
    options.n_ubatch = 64;
    return options;
}

Tokens text_of(size_t n, int start = 0) {
    Tokens tokens;
    for (size_t i = 0; i < n; ++i) {
        tokens.push_back(40 + static_cast<llama_token>((i * 7 + i * i + static_cast<size_t>(start)) % 60));
    }
    return tokens;
}

Tokens joined(const Tokens &a, const Tokens &b) {
    Tokens both = a;
    both.insert(both.end(), b.begin(), b.end());
    return both;
}

Tokens held(const engine::Conversation &conversation) {
    return {conversation.tokens().begin(), conversation.tokens().end()};
}

engine::GenerationRequest request_for(const Tokens &prompt, uint32_t max_tokens = 6) {
    engine::GenerationRequest request;
    request.prompt = prompt;
    request.max_tokens = max_tokens;
    request.at_end = engine::AtEnd::kGoOn;
    request.on_text = [](std::string_view) { return true; };
    return request;
}

engine::GenerationStats answer(engine::Conversation &conversation, const Tokens &prompt) {
    engine::GenerationStats stats;
    conversation.generate(request_for(prompt), stats);
    EXPECT_EQ(stats.reused_tokens + stats.prompt_tokens, prompt.size());
    return stats;
}

Tokens answer_from_nothing(const std::string &model, const Tokens &prompt) {
    engine::Engine engine(small_options(model));
    engine::Conversation conversation(engine);
    return answer(conversation, prompt).tokens;
}

TEST(Conversation, DecodesOnlyWhatIsNewAndAnswersAlike) {
    // Attention to everything, and to a window.
    for (const char *model : {"qwen3moe", "gpt-oss"}) {
        engine::Engine engine(small_options(model));
        engine::Conversation conversation(engine);
        const Tokens question = text_of(100);
        const engine::GenerationStats first = answer(conversation, question);
        EXPECT_EQ(first.reused_tokens, 0u) << model;
        ASSERT_EQ(first.tokens.size(), 6u) << model;
        const Tokens said = joined(question, first.tokens);
        EXPECT_EQ(held(conversation), Tokens(said.begin(), said.end() - 1)) << model;

        const Tokens further = joined(said, text_of(30, 5));
        const engine::GenerationStats second = answer(conversation, further);
        EXPECT_EQ(second.reused_tokens, said.size() - 1) << model;
        EXPECT_EQ(second.tokens, answer_from_nothing(model, further)) << model;

        // Another end of the question: what followed the common beginning is forgotten.
        const Tokens other = joined(text_of(50), text_of(20, 3));
        const engine::GenerationStats third = answer(conversation, other);
        EXPECT_GE(third.reused_tokens, 50u) << model;
        EXPECT_LT(third.reused_tokens, 60u) << model;
        EXPECT_EQ(third.tokens, answer_from_nothing(model, other)) << model;

        // All of it is held: its last token is decoded again, for its logits.
        EXPECT_EQ(answer(conversation, other).reused_tokens, other.size() - 1) << model;

        conversation.reset();
        EXPECT_TRUE(conversation.tokens().empty()) << model;
        EXPECT_EQ(answer(conversation, question).reused_tokens, 0u) << model;
    }
}

TEST(Conversation, ARecurrentStateGoesOnOrStartsAnew) {
    engine::Engine engine(small_options("lfm2moe"));
    engine::Conversation conversation(engine);
    const Tokens question = text_of(100);
    const Tokens said = joined(question, answer(conversation, question).tokens);
    const Tokens further = joined(said, text_of(30, 5));
    const engine::GenerationStats second = answer(conversation, further);
    EXPECT_EQ(second.reused_tokens, said.size() - 1);
    EXPECT_EQ(second.tokens, answer_from_nothing("lfm2moe", further));

    const engine::GenerationStats third = answer(conversation, question);
    EXPECT_EQ(third.reused_tokens, 0u);
    EXPECT_EQ(third.tokens, answer_from_nothing("lfm2moe", question));
}

TEST(Conversation, KnowsWhatIsHeldAfterACancel) {
    for (const char *model : {"qwen3moe", "lfm2moe"}) {
        engine::Engine engine(small_options(model));
        engine::Conversation conversation(engine);
        const Tokens question = text_of(200);
        engine::GenerationStats stats;
        engine::GenerationRequest request = request_for(question);
        request.on_prompt = [&](size_t done) {
            if (done == 128) engine.cancel();
        };
        conversation.generate(request, stats);
        EXPECT_EQ(stats.stop, engine::StopReason::kCancelled) << model;
        EXPECT_EQ(conversation.tokens().size(), engine.held_tokens()) << model;
        const Tokens before = held(conversation);
        EXPECT_EQ(before, Tokens(question.begin(), question.begin() + static_cast<ptrdiff_t>(before.size()))) << model;

        const engine::GenerationStats whole = answer(conversation, question);
        EXPECT_EQ(whole.reused_tokens, before.size()) << model;
        EXPECT_EQ(whole.tokens, answer_from_nothing(model, question)) << model;

        // While it answers.
        const Tokens further = joined(joined(question, whole.tokens), text_of(10, 9));
        request = request_for(further, 20);
        request.on_step = [&](const engine::Step &step) {
            if (step.index == 3) engine.cancel();
        };
        conversation.generate(request, stats);
        EXPECT_EQ(stats.stop, engine::StopReason::kCancelled) << model;
        EXPECT_EQ(stats.generated, 4u) << model;
        EXPECT_EQ(held(conversation), joined(further, stats.tokens)) << model;
    }
}

TEST(Conversation, RefusesAPromptLargerThanTheContextAndKeepsWhatItHolds) {
    engine::Engine engine(small_options("qwen3moe"));
    engine::Conversation conversation(engine);
    answer(conversation, text_of(100));
    const Tokens before = held(conversation);
    engine::GenerationStats stats;
    EXPECT_THROW(conversation.generate(request_for(text_of(513)), stats), Error);
    EXPECT_THROW(conversation.generate(request_for({}), stats), Error);
    EXPECT_EQ(held(conversation), before);
}

}  // namespace
}  // namespace bmoe::gates
