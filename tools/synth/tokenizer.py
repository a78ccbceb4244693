"""The vocabulary, from a Qwen tokenizer's files, whatever the shape: it is padded with unused tokens."""
import json, os


class Tokenizer:
    def __init__(self, folder, n_vocab):
        with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
            tokenizer = json.load(f)
        with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as f:
            template = json.load(f).get("chat_template")
        added = {a["content"]: a["id"] for a in tokenizer["added_tokens"]}
        missing = [t for t in ("<|endoftext|>", "<|im_end|>") if t not in added]
        if missing:
            raise ValueError("%s: its tokenizer has no token %s: give that of a Qwen model" % (folder, missing[0]))
        needed = 1 + max([*tokenizer["model"]["vocab"].values(), *added.values()])
        if needed > n_vocab:
            raise ValueError("--vocab %d: the tokenizer in %s has %d tokens" % (n_vocab, folder, needed))
        tokens = ["[PAD%d]" % i for i in range(n_vocab)]
        types = [5] * n_vocab                       # unused
        for token, i in tokenizer["model"]["vocab"].items():
            tokens[i], types[i] = token, 1
        for a in tokenizer["added_tokens"]:
            tokens[a["id"]], types[a["id"]] = a["content"], 3 if a["special"] else 4
        merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
        # special tokens and padding come last
        self.first_special = min(added.values())
        self.metadata = [
            ("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "qwen2"), ("tokenizer.ggml.tokens", tokens),
            ("tokenizer.ggml.token_type", types), ("tokenizer.ggml.merges", merges),
            ("tokenizer.ggml.eos_token_id", added["<|im_end|>"]),
            ("tokenizer.ggml.padding_token_id", added["<|endoftext|>"]),
            ("tokenizer.ggml.bos_token_id", added["<|endoftext|>"]), ("tokenizer.ggml.add_bos_token", False)]
        if template:
            self.metadata.append(("tokenizer.chat_template", template))
