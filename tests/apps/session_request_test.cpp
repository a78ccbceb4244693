#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/session/request.h"

namespace bmoe::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

BadRequest refused(std::string_view line) {
    const Request request = parse_request(line);
    EXPECT_TRUE(std::holds_alternative<BadRequest>(request)) << line;
    return std::holds_alternative<BadRequest>(request) ? std::get<BadRequest>(request) : BadRequest{};
}

TEST(SessionRequest, ReadsAGenerationOfText) {
    const Request request =
        parse_request(R"({"op":"generate","id":"a","prompt":"gr\u00f6\u00dfer","max_tokens":7,"temperature":0.5,)"
                      R"("top_k":0,"top_p":1,"min_p":0.25,"seed":4294967295,"stop":["\n\n","."]})");
    const auto &wanted = std::get<GenerateRequest>(request);
    EXPECT_EQ(wanted.id, "a");
    EXPECT_EQ(wanted.prompt, "größer");
    EXPECT_TRUE(wanted.messages.empty());
    EXPECT_EQ(wanted.max_tokens, 7u);
    EXPECT_EQ(wanted.temperature, 0.5F);
    EXPECT_EQ(wanted.top_k, 0);
    EXPECT_EQ(wanted.top_p, 1.0F);
    EXPECT_EQ(wanted.min_p, 0.25F);
    EXPECT_EQ(wanted.seed, 4294967295u);
    EXPECT_THAT(wanted.stop, ElementsAre("\n\n", "."));
}

TEST(SessionRequest, LeavesToTheCommandLineWhatIsNotSaid) {
    const Request request = parse_request(R"({"op":"generate","id":"a","prompt":"x"})");
    const auto &wanted = std::get<GenerateRequest>(request);
    EXPECT_FALSE(wanted.max_tokens || wanted.temperature || wanted.top_k || wanted.top_p || wanted.min_p ||
                 wanted.seed);
    EXPECT_TRUE(wanted.stop.empty());
}

TEST(SessionRequest, ReadsAConversation) {
    const Request request = parse_request(
        R"({"op":"generate","id":"b","messages":[{"role":"system","content":""},{"role":"user","content":"hi"}]})");
    EXPECT_THAT(std::get<GenerateRequest>(request).messages, ElementsAre(Pair("system", ""), Pair("user", "hi")));
}

TEST(SessionRequest, ReadsTheOthersWithAndWithoutAnId) {
    EXPECT_EQ(std::get<CancelRequest>(parse_request(R"({"op":"cancel","id":"a"})")).id, "a");
    EXPECT_FALSE(std::get<CancelRequest>(parse_request(R"( {"op":"cancel"} )")).id);
    EXPECT_EQ(std::get<ResetRequest>(parse_request(R"({"id":"r","op":"reset"})")).id, "r");
    EXPECT_FALSE(std::get<CloseRequest>(parse_request(R"({"op":"close"})")).id);
}

TEST(SessionRequest, SaysWhatIsWrong) {
    const struct {
        const char *line;
        const char *message;
    } cases[] = {
        {"", "not JSON"},
        {"generate", "not JSON"},
        {R"({"op":"reset"} x)", "not JSON"},
        {"{\"op\":\"\xff\"}", "not JSON in UTF-8"},
        {R"({"op":"reset","id":1e999})", "too large"},
        {"[]", "must be a JSON object, not array"},
        {"{}", "needs 'op'"},
        {R"({"op":3})", "'op' must be a string, not number"},
        {R"({"op":"sing"})", "unknown op 'sing'"},
        {R"({"op":"reset","prompt":"x"})", "unknown field 'prompt'"},
        {R"({"op":"generate","prompt":"x"})", "needs 'id'"},
        {R"({"op":"generate","id":"a"})", "either 'prompt' or 'messages'"},
        {R"({"op":"generate","id":"a","prompt":"x","messages":[]})", "either 'prompt' or 'messages'"},
        {R"({"op":"generate","id":"a","prompt":""})", "'prompt', a string that is not empty"},
        {R"({"op":"generate","id":"a","prompt":null})", "'prompt' must be a string, not null"},
        {R"({"op":"generate","id":"a","messages":"x"})", "'messages' must be a list"},
        {R"({"op":"generate","id":"a","messages":[]})", "must not be empty"},
        {R"({"op":"generate","id":"a","messages":["x"]})", "message 0 must be a JSON object"},
        {R"({"op":"generate","id":"a","messages":[{"role":"user"}]})", "message 0 needs 'content'"},
        {R"({"op":"generate","id":"a","messages":[{"content":"x"}]})", "message 0 needs 'role'"},
        {R"({"op":"generate","id":"a","messages":[{"role":"user","content":"x","name":"y"}]})", "unknown field 'name'"},
        {R"({"op":"generate","id":"a","prompt":"x","max_tokens":0})", "'max_tokens' must be a whole number from 1"},
        {R"({"op":"generate","id":"a","prompt":"x","max_tokens":1.5})", "'max_tokens'"},
        {R"({"op":"generate","id":"a","prompt":"x","max_tokens":"7"})", "'max_tokens'"},
        {R"({"op":"generate","id":"a","prompt":"x","seed":-1})", "'seed'"},
        {R"({"op":"generate","id":"a","prompt":"x","seed":4294967296})", "'seed'"},
        {R"({"op":"generate","id":"a","prompt":"x","temperature":-0.1})",
         "'temperature' must be a number from 0 to 100"},
        {R"({"op":"generate","id":"a","prompt":"x","top_p":1.1})", "'top_p'"},
        {R"({"op":"generate","id":"a","prompt":"x","stop":""})", "'stop' must be a list"},
        {R"({"op":"generate","id":"a","prompt":"x","stop":[""]})", "strings that are not empty"},
        {R"({"op":"generate","id":"a","prompt":"x","n":1})", "unknown field 'n'"},
    };
    for (const auto &[line, message] : cases) {
        EXPECT_THAT(refused(line).message, HasSubstr(message)) << line;
    }
}

TEST(SessionRequest, NamesTheIdOfABadRequestWhereItHasOne) {
    EXPECT_EQ(refused(R"({"op":"generate","id":"a"})").id, "a");
    EXPECT_EQ(refused(R"({"op":"generate","id":5,"prompt":"x"})").id, std::nullopt);
    EXPECT_EQ(refused("{").id, std::nullopt);
}

TEST(SessionRequest, SurvivesDeepNesting) {
    refused(std::string(200000, '['));
    refused(std::string(100000, '[') + std::string(100000, ']'));
}

}  // namespace
}  // namespace bmoe::cli
