"""gpt-oss-120b Q4_K_M: MXFP4 experts, the rest as llama-quantize makes it. Each layer, its experts and the rest of it, takes
exactly the bytes in the header of a route trace recorded on a device.

Queries and keys have no norm: their constant is a bias."""
import numpy as np
from .container import MXFP4, Q4_K, Q5_0, Q8_0
from .mix import more_bits
from .weights import CTX_STEP, NC, NU, f32, noise, same

NAME = "gpt-oss-120b"
DIMENSIONS = dict(layers=36, embd=2880, heads=64, kv_heads=8, head_dim=64, experts=128, topk=4, ff=2880, vocab=201088)
Q_K_CONSTANT = 1.35
BIAS = 0.02


def metadata(c):
    a = "gpt-oss."
    return [
        ("general.architecture", "gpt-oss"), ("general.type", "model"), ("general.name", c.name),
        ("general.description", c.description), ("general.quantization_version", 2), ("general.file_type", 15),
        (a + "block_count", c.layers), (a + "context_length", 131072), (a + "embedding_length", c.embd),
        (a + "feed_forward_length", c.ff), (a + "attention.head_count", c.heads),
        (a + "attention.head_count_kv", c.kv_heads), (a + "attention.key_length", c.head_dim),
        (a + "attention.value_length", c.head_dim), (a + "attention.layer_norm_rms_epsilon", 1e-5),
        (a + "attention.sliding_window", 128), (a + "rope.freq_base", 150000.0), (a + "rope.scaling.type", "yarn"),
        (a + "rope.scaling.factor", 32.0), (a + "rope.scaling.original_context_length", 4096),
        (a + "expert_count", c.experts), (a + "expert_used_count", c.topk), (a + "expert_feed_forward_length", c.ff)]


def tensors(c, w):
    yield w.embedding("token_embd.weight", Q5_0)
    yield w.output_norm()
    yield w.output("output.weight", Q8_0)
    for l in range(c.layers):
        yield from attention(c, w, l)
        yield from feed_forward(c, w, l)


def constant_bias(name, heads, head_dim):
    """On the first half of the rotary pairs: the score is a function of distance, plus noise."""
    n = heads * head_dim
    return f32(name, [n], lambda rng: np.where(np.arange(n) % head_dim < head_dim // 2, Q_K_CONSTANT, 0)
               + BIAS * rng.standard_normal(n))


def attention(c, w, l):
    p = "blk.%d." % l
    width, kv_width = c.heads * c.head_dim, c.kv_heads * c.head_dim
    v = Q8_0 if more_bits(l, DIMENSIONS["layers"]) else Q5_0
    yield same(p + "attn_norm.weight", c.embd)
    yield w.from_token(p + "attn_q.weight", Q5_0, width, 0.8)
    yield constant_bias(p + "attn_q.bias", c.heads, c.head_dim)
    yield w.from_token(p + "attn_k.weight", Q5_0, kv_width, 0.8)
    yield constant_bias(p + "attn_k.bias", c.kv_heads, c.head_dim)
    yield w.from_token(p + "attn_v.weight", v, kv_width, 1.0)
    yield noise(p + "attn_v.bias", [kv_width], BIAS)
    yield noise(p + "attn_sinks.weight", [c.heads], 1.0)
    # value averaging leaves ~ 1/sqrt(W) of a value's RMS, W ~ 6
    yield w.to_context(p + "attn_output.weight", Q4_K, width, CTX_STEP * np.sqrt(6.0) / np.sqrt(width))
    yield noise(p + "attn_output.bias", [c.embd], BIAS, NU, NU + NC)


def feed_forward(c, w, l):
    p = "blk.%d." % l
    yield same(p + "post_attention_norm.weight", c.embd)
    yield w.router(l)
    yield noise(p + "ffn_gate_inp.bias", [c.experts], BIAS)
    for part in ("gate", "up"):
        yield w.expert_inputs(p + "ffn_%s_exps.weight" % part, MXFP4, c.ff, c.experts)
        yield noise(p + "ffn_%s_exps.bias" % part, [c.ff, c.experts], BIAS)
    # RMS of g * sigmoid(1.702 g) * (u + 1) for normal g and u, and of the weighted sum
    yield w.expert_outputs(p + "ffn_down_exps.weight", MXFP4, c.ff, c.experts, 0.9 * 0.6)
    yield noise(p + "ffn_down_exps.bias", [c.embd, c.experts], BIAS, NU + NC)
