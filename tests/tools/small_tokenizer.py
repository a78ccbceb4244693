"""A tokenizer of Qwen's kind for make_synth.py, with few tokens."""
import json
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from make_tiny_moe import vocabulary


def write(folder):
    tokens, merges = vocabulary()
    added = [{"content": content, "id": len(tokens) + i, "special": True}
             for i, content in enumerate(["<|endoftext|>", "<|im_end|>"])]
    files = {"tokenizer.json": {"model": {"vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges},
                                "added_tokens": added},
             "tokenizer_config.json": {}}
    for name, content in files.items():
        (Path(folder) / name).write_text(json.dumps(content), encoding="utf-8")
