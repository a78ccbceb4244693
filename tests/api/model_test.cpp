// The library as a program of its own uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "bmoe/bmoe.h"
#include "tests/support/chat_model.h"
#include "tests/support/scratch.h"

namespace bmoe {
namespace {

using testing::HasSubstr;

ModelOptions demo_options() {
    ModelOptions options;
    options.path = BMOE_DEMO_MODEL;
    options.cache_bytes = uint64_t{2} << 20;
    options.warm_start = false;
    options.context_tokens = 1024;
    options.ubatch_tokens = 64;
    options.threads = 1;
    return options;
}

Request request_for(const std::string &prompt, uint32_t max_tokens = 12) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = max_tokens;
    return request;
}

const std::string kPrompt = "And the king said unto";

std::string long_prompt() {
    std::string text;
    for (int i = 0; i < 100; ++i) {
        text += "And the king said unto him, ";
    }
    return text;
}

template <typename Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const Error &error) {
        return error.what();
    }
    return {};
}

TEST(Model, GeneratesAndSaysWhatItTook) {
    float loaded = 0;
    ModelOptions options = demo_options();
    options.on_load = [&](float done) { loaded = done; };
    Model model(options);
    EXPECT_EQ(loaded, 1);
    EXPECT_TRUE(model.info().streaming);
    EXPECT_EQ(model.info().context_tokens, 1024u);
    EXPECT_EQ(model.info().ubatch_tokens, 64u);
    EXPECT_GT(model.info().expert_bytes, uint64_t{10} << 20);

    Request request = request_for(kPrompt);
    std::string heard;
    std::vector<uint32_t> done;
    request.on_text = [&](std::string_view text) {
        heard += text;
        return true;
    };
    request.on_prompt = [&](uint32_t tokens, uint32_t total) {
        done.push_back(tokens);
        EXPECT_GE(total, tokens);
    };
    const Answer answer = model.generate(request);
    EXPECT_EQ(answer.text, heard);
    EXPECT_FALSE(answer.text.empty());
    EXPECT_EQ(answer.reason, StopReason::kMaxTokens);
    EXPECT_EQ(answer.generated_tokens, 12u);
    EXPECT_EQ(answer.decode_steps, 11u);
    EXPECT_EQ(answer.decoded_tokens, answer.prompt_tokens);
    EXPECT_EQ(done, (std::vector<uint32_t>{0, answer.prompt_tokens}));
    EXPECT_GE(answer.hit_rate, 0);
    EXPECT_LE(answer.hit_rate, 1);
    const ModelStats stats = model.stats();
    EXPECT_EQ(stats.held_tokens, answer.prompt_tokens + 11);
    EXPECT_GT(stats.expert_hits + stats.expert_misses, 0u);
    EXPECT_GT(stats.read_bytes, static_cast<uint64_t>(answer.read_bytes));
    EXPECT_LE(stats.cached_bytes, stats.cache_bytes);
}

TEST(Model, ReusesWhatTheContextHolds) {
    Model model(demo_options());
    const Answer first = model.generate(request_for(kPrompt));
    const Answer second = model.generate(request_for(kPrompt + first.text + " And"));
    EXPECT_GE(second.reused_tokens, first.prompt_tokens);
    EXPECT_EQ(second.reused_tokens + second.decoded_tokens, second.prompt_tokens);
    model.reset();
    EXPECT_EQ(model.stats().held_tokens, 0u);
    const Answer again = model.generate(request_for(kPrompt));
    EXPECT_EQ(again.reused_tokens, 0u);
    EXPECT_EQ(again.text, first.text);
}

TEST(Model, ResizesItsCacheBetweenGenerations) {
    Model model(demo_options());
    const std::string text = model.generate(request_for(kPrompt)).text;
    const ModelStats before = model.stats();
    for (const uint64_t mib : {4, 0, 64, 2}) {
        model.resize_cache(mib << 20);
        EXPECT_LE(model.stats().cache_bytes, mib << 20);
        model.reset();
        EXPECT_EQ(model.generate(request_for(kPrompt)).text, text) << mib;
    }
    EXPECT_GT(model.stats().expert_misses, before.expert_misses);
    const uint64_t cache_bytes = model.stats().cache_bytes;
    EXPECT_THAT(error_of([&] { model.resize_cache(1); }), HasSubstr("too small"));
    EXPECT_EQ(model.stats().cache_bytes, cache_bytes);
    model.reset();
    EXPECT_EQ(model.generate(request_for(kPrompt)).text, text);
}

TEST(Model, IsCancelledWhileItsPromptIsCutIntoTokens) {
    Model model(demo_options());
    std::string huge = long_prompt();
    while (huge.size() < (2U << 20)) {
        huge += huge;
    }
    model.cancel();
    const Answer answer = model.generate(request_for(huge));
    EXPECT_EQ(answer.reason, StopReason::kCancelled);
    EXPECT_EQ(answer.prompt_tokens, 0u);
    EXPECT_EQ(answer.text, "");
    EXPECT_EQ(model.generate(request_for(kPrompt)).reason, StopReason::kMaxTokens);
    EXPECT_THAT(error_of([&] { model.generate(request_for(huge)); }), HasSubstr("the context holds 1024"));
}

TEST(Model, IsCancelledFromAnotherThread) {
    Model model(demo_options());
    std::thread other;
    Request request = request_for(long_prompt());
    request.on_prompt = [&](uint32_t done, uint32_t) {
        if (done == 64) {
            other = std::thread([&] { model.cancel(); });
            other.join();
        }
    };
    const Answer answer = model.generate(request);
    EXPECT_EQ(answer.reason, StopReason::kCancelled);
    EXPECT_EQ(answer.decoded_tokens, 64u);
    EXPECT_EQ(answer.generated_tokens, 0u);
    EXPECT_EQ(model.generate(request_for(kPrompt)).reason, StopReason::kMaxTokens);
}

TEST(Model, EndsWhereTheCallerWants) {
    Model model(demo_options());
    const std::string text = model.generate(request_for(kPrompt)).text;
    Request request = request_for(kPrompt);
    request.stop = {"never", text.substr(3, 2)};
    const Answer stopped = model.generate(request);
    EXPECT_EQ(stopped.reason, StopReason::kEnd);
    EXPECT_EQ(stopped.stop, text.substr(3, 2));
    EXPECT_EQ(stopped.text, text.substr(0, 3));

    request.stop.clear();
    request.on_text = [](std::string_view) { return false; };
    const Answer once = model.generate(request);
    EXPECT_EQ(once.reason, StopReason::kCaller);
    EXPECT_EQ(once.generated_tokens, 1u);

    request.on_text = [](std::string_view) -> bool { throw std::logic_error("mine"); };
    EXPECT_THROW(model.generate(request), std::logic_error);
    request.on_text = {};
    EXPECT_EQ(model.generate(request).text, text);
}

// The template decides what a conversation becomes: the same tokens as its text written out.
TEST(Model, AnswersMessagesInTheModelsOwnTemplate) {
    const test::Scratch scratch;
    ModelOptions options = demo_options();
    options.path = scratch.file("chat.gguf");
    test::copy_with_chat_template(BMOE_DEMO_MODEL, options.path, test::kPlainTemplate);
    Model model(options);
    EXPECT_TRUE(model.info().chat_template);
    Request request;
    request.max_tokens = 12;
    request.messages = {{"system", "Be brief."}, {"user", "Who spake?"}, {"assistant", "He."}, {"user", "And then?"}};
    const Answer answer = model.generate(request);
    model.reset();
    const Answer written = model.generate(request_for(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho spake?<|im_end|>\n"
        "<|im_start|>assistant\nHe.<|im_end|>\n<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n"));
    EXPECT_EQ(answer.text, written.text);
    EXPECT_EQ(answer.prompt_tokens, written.prompt_tokens);
    EXPECT_EQ(answer.reasoning, "");
}

TEST(Model, TellsReasoningFromTheAnswer) {
    const test::Scratch scratch;
    ModelOptions options = demo_options();
    options.path = scratch.file("reasoning.gguf");
    test::copy_with_chat_template(BMOE_DEMO_MODEL, options.path, test::kReasoningTemplate);
    Model model(options);
    Request request;
    request.max_tokens = 12;
    request.messages = {{"user", "And the king said"}};
    std::string reasoning;
    request.on_reasoning = [&](std::string_view text) {
        reasoning += text;
        return true;
    };
    request.on_text = [](std::string_view text) {
        ADD_FAILURE() << "the model was still at its reasoning: " << text;
        return true;
    };
    const Answer answer = model.generate(request);
    EXPECT_NE(reasoning, "");
    EXPECT_EQ(answer.reasoning, reasoning);
    EXPECT_EQ(answer.text, "");
    EXPECT_EQ(answer.reason, StopReason::kMaxTokens);

    request.on_reasoning = [](std::string_view) { return false; };
    const Answer ended = model.generate(request);
    EXPECT_EQ(ended.reason, StopReason::kCaller);
    EXPECT_LT(ended.generated_tokens, answer.generated_tokens);
}

TEST(Model, NotesWhatIsNotAsAsked) {
    std::vector<std::string> notes;
    ModelOptions options = demo_options();
    options.on_note = [&](const std::string &line) { notes.push_back(line); };
    options.threads = 100'000;
    const Model model(options);
    EXPECT_THAT(notes, testing::Contains(HasSubstr("100000 threads are more than the")));
    EXPECT_LT(model.info().threads, 100'000);
    EXPECT_GE(model.info().threads, 1);
}

TEST(Model, SamplesBySeed) {
    Model model(demo_options());
    Request request = request_for(kPrompt);
    request.sampling = {.temperature = 3, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 5};
    const std::string text = model.generate(request).text;
    EXPECT_EQ(model.generate(request).text, text);
    request.sampling.seed = 6;
    EXPECT_NE(model.generate(request).text, text);
}

TEST(Model, SaysWhatItCannotDoAndGoesOn) {
    ModelOptions options = demo_options();
    options.path = "/nowhere/model.gguf";
    EXPECT_THAT(error_of([&] { const Model missing(options); }), HasSubstr("/nowhere/model.gguf"));
    options = demo_options();
    options.io_threads = 0;
    EXPECT_THAT(error_of([&] { const Model none(options); }), HasSubstr("io_threads"));

    Model model(demo_options());
    EXPECT_THAT(error_of([&] { model.generate({}); }), HasSubstr("either a prompt or messages"));
    Request request;
    request.messages = {{"user", "x"}};
    EXPECT_THAT(error_of([&] { model.generate(request); }), HasSubstr("chat template"));
    request = request_for(long_prompt() + long_prompt());
    EXPECT_THAT(error_of([&] { model.generate(request); }), HasSubstr("the context holds 1024"));
    Model moved(std::move(model));
    EXPECT_EQ(moved.generate(request_for(kPrompt)).reason, StopReason::kMaxTokens);
}

TEST(Model, RunsAModelWithoutExperts) {
    ModelOptions options = demo_options();
    options.path = std::string(BMOE_TINY_MODELS) + "/qwen3.gguf";
    Model model(options);
    EXPECT_FALSE(model.info().streaming);
    const Answer answer = model.generate(request_for("abc"));
    EXPECT_LT(answer.hit_rate, 0);
    EXPECT_LT(answer.read_bytes, 0);
    EXPECT_LT(answer.wait_seconds, 0);
    EXPECT_EQ(model.stats().cache_bytes, 0u);
    EXPECT_THAT(error_of([&] { model.resize_cache(1 << 20); }), HasSubstr("nothing is streamed"));
}

TEST(Model, NamesItsVersion) {
    EXPECT_THAT(version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
    EXPECT_NE(std::string(llama_cpp_commit()), "");
}

}  // namespace
}  // namespace bmoe
