#!/usr/bin/env python3
"""small_synth_models.py DIR: DIR/SHAPE.gguf for every shape of make_synth.py, reduced to a few MiB, and DIR/cut.route.csv, a
trace of six layers cut to the two of gpt-oss-120b.gguf."""
import subprocess
import sys
from pathlib import Path

import small_tokenizer

REDUCED = "--embd 1280 --heads 4 --kv-heads 4 --head-dim 64 --experts 8 --topk 3 --ff 256 --vocab 512".split()
LAYERS = {"qwen3-30b-a3b": 2, "gemma4-26b-a4b": 6, "gpt-oss-120b": 2}   # the sixth of gemma4 is the first of its kind
TOKENS = 3


def trace(layers, top_k):
    yield "# route_trace v1"
    yield "# model=m arch=gpt-oss n_layer=%d n_expert=8 n_expert_used=%d" % (layers, top_k)
    yield from ("# layer=%d expert_bytes=1000 dense_bytes=0" % layer for layer in range(layers))
    yield "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes"
    for token in range(TOKENS):
        for layer in range(layers):
            for slot in range(top_k):
                yield "0,1,%d,%d,%d,%d,0.5,0,1000" % (token, layer, slot, (token + layer + slot) % 8)


def run(script, *arguments):
    subprocess.run([sys.executable, "-B", small_tokenizer.TOOLS / script, *map(str, arguments)], check=True,
                   stdout=subprocess.DEVNULL)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    small_tokenizer.write(out)
    for shape, layers in LAYERS.items():
        run("make_synth.py", "gen", out / (shape + ".gguf"), "--tokenizer", out, "--shape", shape, "--layers", layers, *REDUCED)
    (out / "whole.route.csv").write_text("".join(line + "\n" for line in trace(6, 2)))
    (out / "cut.route.csv").unlink(missing_ok=True)
    run("cut_trace.py", "--layers", LAYERS["gpt-oss-120b"], out / "whole.route.csv", out / "cut.route.csv")
    (out / "done").touch()


if __name__ == "__main__":
    main()
