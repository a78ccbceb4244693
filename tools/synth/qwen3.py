"""Qwen3-30B-A3B Q4_K_M. A model of fewer layers is one of its own: the mix of types is that of so many."""
import numpy as np
from .container import Q4_K, Q6_K
from .mix import more_bits
from .weights import CTX_STEP, f32, same

NAME = "Qwen3-30B-A3B"
DIMENSIONS = dict(layers=48, embd=2048, heads=32, kv_heads=4, head_dim=128, experts=128, topk=8, ff=768, vocab=151936)


def metadata(c):
    a = "qwen3moe."
    return [
        ("general.architecture", "qwen3moe"), ("general.type", "model"), ("general.name", c.name),
        ("general.quantization_version", 2), ("general.file_type", 15),
        (a + "block_count", c.layers), (a + "context_length", 40960), (a + "embedding_length", c.embd),
        (a + "feed_forward_length", 6144), (a + "attention.head_count", c.heads),
        (a + "attention.head_count_kv", c.kv_heads), (a + "attention.key_length", c.head_dim),
        (a + "attention.value_length", c.head_dim), (a + "attention.layer_norm_rms_epsilon", 1e-6),
        (a + "rope.freq_base", 1e6), (a + "expert_count", c.experts), (a + "expert_used_count", c.topk),
        (a + "expert_feed_forward_length", c.ff)]


def tensors(c, w):
    yield w.output("output.weight", Q6_K)
    yield w.output_norm()
    yield w.embedding("token_embd.weight", Q4_K)
    for l in range(c.layers):
        p = "blk.%d." % l
        v_down = Q6_K if more_bits(l, c.layers) else Q4_K
        width = c.heads * c.head_dim
        yield w.query_or_key(p + "attn_k.weight", Q4_K, c.kv_heads, c.head_dim)
        yield same(p + "attn_k_norm.weight", c.head_dim)
        yield same(p + "attn_norm.weight", c.embd)
        # value averaging leaves ~ 1/sqrt(W) of a value's RMS, W ~ 6
        yield w.to_context(p + "attn_output.weight", Q4_K, width, CTX_STEP * np.sqrt(6.0) / np.sqrt(width))
        yield w.query_or_key(p + "attn_q.weight", Q4_K, c.heads, c.head_dim)
        yield f32(p + "attn_q_norm.weight", [c.head_dim],
                  lambda rng: np.full(c.head_dim, 1.6 + 1.2 * rng.random()))
        yield w.from_token(p + "attn_v.weight", v_down, c.kv_heads * c.head_dim, 1.0)
        yield w.expert_outputs(p + "ffn_down_exps.weight", v_down, c.ff, c.experts, 0.41 * 0.6)
        yield w.expert_inputs(p + "ffn_gate_exps.weight", Q4_K, c.ff, c.experts)
        yield w.router(l)
        yield same(p + "ffn_norm.weight", c.embd)
        yield w.expert_inputs(p + "ffn_up_exps.weight", Q4_K, c.ff, c.experts)
