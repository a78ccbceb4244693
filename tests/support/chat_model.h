// Models with a chat template, for tests: the bundled ones have none.
#pragma once

#include <string>

namespace bmoe::test {

// Writes a copy of the GGUF at `from`, with this chat template, to `to`.
void copy_with_chat_template(const std::string &from, const std::string &to, std::string source);

// Templates in the manner of many models. The first knows no reasoning; the second opens it for the model, unless
// enable_thinking is false.
inline const std::string kPlainTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
inline const std::string kReasoningTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
    "{% if message.role == 'assistant' and message.reasoning_content and loop.last %}"
    "{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}"
    "{{ message.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '\\n</think>\\n\\n' }}{% endif %}{% endif %}";

}  // namespace bmoe::test
