#include "engine/chat_template.h"

#include <exception>
#include <map>
#include <utility>

#include "base/error.h"
#include "chat.h"
#include "engine/answer_format.h"

namespace bmoe::engine {

namespace {

// A variable by which templates turn reasoning on and off, and its values as JSON.
struct ReasoningSwitch {
    const char *name;
    const char *off;
    const char *on;
};
constexpr ReasoningSwitch kReasoningSwitches[] = {{"enable_thinking", "false", "true"},
                                                  {"thinking", "false", "true"},
                                                  {"reasoning", "false", "true"},
                                                  {"thinking_mode", "\"disabled\"", "\"enabled\""},
                                                  {"thinking_budget", "0", "-1"}};

// Where a model reasons in one channel and answers in another, the answer's is opened for it.
constexpr const char *kReasoningChannel = "<|channel|>analysis<|message|>";
constexpr const char *kAnswerChannel = "<|channel|>final<|message|>";

using Variables = std::map<std::string, std::string>;

common_chat_msg to_llama(const ChatMessage &message) {
    common_chat_msg out;
    out.role = message.role;
    out.content = message.content;
    out.reasoning_content = message.reasoning;
    return out;
}

// Control tokens among `texts`: they have no text unless asked for.
std::vector<llama_token> control_tokens(const llama_vocab *vocab, const std::vector<std::string> &texts) {
    std::vector<llama_token> tokens;
    for (const std::string &text : texts) {
        llama_token token[2];
        const int32_t n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), token, 2, false, true);
        if (n == 1 && llama_vocab_is_control(vocab, token[0])) {
            tokens.push_back(token[0]);
        }
    }
    return tokens;
}

}  // namespace

struct ChatTemplate::State {
    common_chat_templates_ptr templates;
    const llama_vocab *vocab = nullptr;
    Variables variables;
    bool answer_channel = false;

    State(const llama_model *model, const std::string &source) {
        try {
            templates = common_chat_templates_init(model, source);
        } catch (const std::exception &error) {
            throw Error(cat("the model's chat template (tokenizer.chat_template) cannot be read: ", error.what()));
        }
    }

    common_chat_params apply(std::span<const ChatMessage> messages, const Variables &with) const {
        common_chat_templates_inputs inputs;
        for (const ChatMessage &message : messages) {
            inputs.messages.push_back(to_llama(message));
        }
        inputs.add_generation_prompt = true;
        inputs.use_jinja = true;
        inputs.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
        inputs.chat_template_kwargs = with;
        const auto thinking = with.find("enable_thinking");
        inputs.enable_thinking = thinking == with.end() || thinking->second != "false";
        try {
            return common_chat_templates_apply(templates.get(), inputs);
        } catch (const std::exception &error) {
            throw Error(cat("the model's chat template cannot be applied: ", error.what()));
        }
    }
};

ChatTemplate::ChatTemplate(const llama_model *model) {
    if (llama_model_chat_template(model, nullptr) == nullptr) {
        throw Error(
            "the model has no chat template (tokenizer.chat_template): it can only continue text; give one with -p "
            "or -f, without --chat, or to a session as 'prompt'");
    }
    state_ = std::make_unique<State>(model, "");
    state_->vocab = llama_model_get_vocab(model);
}

ChatTemplate::ChatTemplate(const std::string &source) : state_(std::make_unique<State>(nullptr, source)) {}

ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::turn_off_reasoning() {
    const std::vector<ChatMessage> probe = {{"user", "Hello", ""}};
    const common_chat_params usual = state_->apply(probe, {});
    for (const ReasoningSwitch &candidate : kReasoningSwitches) {
        const Variables off = {{candidate.name, candidate.off}};
        if (state_->apply(probe, off).prompt != usual.prompt) {
            state_->variables = off;
            return true;
        }
        if (state_->apply(probe, {{candidate.name, candidate.on}}).prompt != usual.prompt) {
            return true;  // it is off unless asked for
        }
    }
    state_->answer_channel = usual.thinking_start_tag == kReasoningChannel;
    return state_->answer_channel;
}

RenderedChat ChatTemplate::render(std::span<const ChatMessage> messages) const {
    common_chat_params params = state_->apply(messages, state_->variables);
    if (state_->answer_channel) {
        params.prompt += kAnswerChannel;
        params.generation_prompt += kAnswerChannel;
    }
    auto format = std::make_shared<AnswerFormat>();
    format->parser = common_chat_parser_params(params);
    format->parser.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
    format->parser.parse_tool_calls = false;
    if (!params.parser.empty()) {
        format->parser.parser.load(params.parser);
    }
    format->stops = params.additional_stops;
    RenderedChat rendered;
    rendered.prompt = std::move(params.prompt);
    if (state_->vocab != nullptr) {
        rendered.markers = control_tokens(state_->vocab, params.preserved_tokens);
    }
    rendered.format = std::move(format);
    return rendered;
}

}  // namespace bmoe::engine
