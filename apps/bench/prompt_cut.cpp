#include "bench/prompt_cut.h"

#include "base/error.h"

namespace bmoe::bench {

Prompt cut_prompt(const TextTokens &text, size_t skip, size_t n) {
    if (text.first.empty() || text.again.empty()) {
        throw Error(cat(text.path, ": the model's tokenizer makes no tokens of it; give another text with --prompt"));
    }
    Prompt prompt;
    prompt.tokens = text.first;
    if (skip > 0) {
        if (prompt.tokens.size() < skip + n) {
            throw Error(cat(text.path, ": is too short: ", n, " tokens after the first ", skip,
                            " are wanted, and it has ", prompt.tokens.size(), "; give a longer text with --prompt"));
        }
        const auto begin = prompt.tokens.begin() + (text.first.front() == text.again.front() ? 0 : 1);
        prompt.tokens.erase(begin, begin + static_cast<ptrdiff_t>(skip));
    }
    while (prompt.tokens.size() < n) {
        prompt.tokens.insert(prompt.tokens.end(), text.again.begin(), text.again.end());
        ++prompt.repeats;
    }
    prompt.tokens.resize(n);
    return prompt;
}

}  // namespace bmoe::bench
