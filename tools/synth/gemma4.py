"""gemma-4-26B-A4B, a Q4_K_M with more bits for attention: the types are those with which each layer, its experts and the
rest of it, takes exactly the bytes in the header of a route trace recorded on a device.

Every sixth layer has full attention, twice as wide heads, and keys that are its values too. Norms behind attention and experts
set what a layer adds to the residual stream. The embedding is the output matrix as well: a token would be followed by itself,
or two tokens by each other. So the output reads only columns where the embedding is faint, and finds mostly what the layers
wrote; output_norm has random signs there."""
import numpy as np
from .container import Q4_K, Q5_0, Q5_K, Q6_K, Q8_0
from .mix import more_bits
from .weights import CTX_STEP, FFN_STEP, NC, f32, same

NAME = "gemma-4-26B-A4B"
DIMENSIONS = dict(layers=30, embd=2816, heads=16, kv_heads=8, head_dim=256, experts=128, topk=8, ff=704, vocab=262144)
READ = 256          # columns that the output reads
ROTATED = 0.25      # share of the pairs of a full head that turn with the position


def is_full(l):
    return l % 6 == 5


def head_dim(c, l):
    return c.head_dim * 2 if is_full(l) else c.head_dim


def kv_heads(c, l):
    return max(c.kv_heads // 4, 1) if is_full(l) else c.kv_heads


def dense_ff(c):
    return 3 * c.ff


def metadata(c):
    a = "gemma4."
    layers = range(c.layers)
    return [
        ("general.architecture", "gemma4"), ("general.type", "model"), ("general.name", c.name),
        ("general.description", c.description), ("general.quantization_version", 2), ("general.file_type", 15),
        (a + "block_count", c.layers), (a + "context_length", 262144), (a + "embedding_length", c.embd),
        (a + "feed_forward_length", dense_ff(c)), (a + "attention.head_count", c.heads),
        (a + "attention.head_count_kv", [kv_heads(c, l) for l in layers]),
        (a + "attention.key_length", 2 * c.head_dim), (a + "attention.value_length", 2 * c.head_dim),
        (a + "attention.key_length_swa", c.head_dim), (a + "attention.value_length_swa", c.head_dim),
        (a + "attention.layer_norm_rms_epsilon", 1e-6), (a + "attention.sliding_window", 1024),
        (a + "attention.sliding_window_pattern", [not is_full(l) for l in layers]),
        (a + "attention.shared_kv_layers", 0), (a + "embedding_length_per_layer_input", 0),
        (a + "final_logit_softcapping", 30.0), (a + "rope.freq_base", 1e6), (a + "rope.freq_base_swa", 1e4),
        (a + "rope.dimension_count", 2 * c.head_dim), (a + "rope.dimension_count_swa", c.head_dim),
        (a + "expert_count", c.experts), (a + "expert_used_count", c.topk), (a + "expert_feed_forward_length", c.ff)]


def tensors(c, w):
    # llama.cpp multiplies what it looks up by sqrt(embd)
    yield w.embedding("token_embd.weight", Q6_K, 1 / np.sqrt(c.embd), specials=False, faint=READ)
    yield w.output_norm(lambda rng, n: np.pad(rng.permutation(np.resize([-100, 100], READ)), (n - READ, 0)))
    if any(is_full(l) for l in range(c.layers)):
        pairs = c.head_dim
        yield f32("rope_freqs.weight", [pairs],
                  lambda rng: np.where(np.arange(pairs) < ROTATED * pairs, 1, 1e30))
    for l in range(c.layers):
        yield from attention(c, w, l)
        yield from feed_forward(c, w, l)


def attention(c, w, l):
    p, hd = "blk.%d." % l, head_dim(c, l)
    width = c.heads * hd
    yield same(p + "attn_norm.weight", c.embd)
    yield w.query_or_key(p + "attn_q.weight", Q6_K if more_bits(l, DIMENSIONS["layers"]) else Q4_K, c.heads, hd)
    yield w.query_or_key(p + "attn_k.weight", Q8_0, kv_heads(c, l), hd)
    if not is_full(l):
        yield w.from_token(p + "attn_v.weight", Q8_0, kv_heads(c, l) * hd, 1.0)
    # scores are not divided by sqrt(head_dim)
    yield f32(p + "attn_q_norm.weight", [hd], lambda rng: np.full(hd, (1.6 + 1.2 * rng.random()) / np.sqrt(hd)))
    yield same(p + "attn_k_norm.weight", hd)
    # keys that are values too would add the same to every token by their constant
    read = np.arange(0, width, 256) % hd >= hd // 2 if is_full(l) else 1
    yield w.to_context(p + "attn_output.weight", Q5_K, width, read / np.sqrt(width))
    yield same(p + "post_attention_norm.weight", c.embd, CTX_STEP * np.sqrt(NC / c.embd))
    yield same(p + "layer_output_scale.weight", 1)


def feed_forward(c, w, l):
    p = "blk.%d." % l
    yield same(p + "ffn_norm.weight", c.embd)
    yield w.expert_inputs(p + "ffn_gate.weight", Q4_K, dense_ff(c), None)
    yield w.expert_inputs(p + "ffn_up.weight", Q4_K, dense_ff(c), None)
    dense_down = Q8_0 if more_bits(l, DIMENSIONS["layers"]) else Q5_0
    yield w.expert_outputs(p + "ffn_down.weight", dense_down, dense_ff(c), None, 0.41)
    yield same(p + "post_ffw_norm_1.weight", c.embd)
    yield w.router(l)
    # llama.cpp divides the router's input by sqrt(embd)
    yield same(p + "ffn_gate_inp.scale", c.embd, np.sqrt(c.embd))
    yield same(p + "pre_ffw_norm_2.weight", c.embd)
    yield w.expert_inputs(p + "ffn_gate_up_exps.weight", Q4_K, 2 * c.ff, c.experts)
    down = Q8_0 if l < 7 or l % 3 == 0 else Q5_0
    yield w.expert_outputs(p + "ffn_down_exps.weight", down, c.ff, c.experts, 0.41 * 0.6)
    yield f32(p + "ffn_down_exps.scale", [c.experts], lambda rng: rng.uniform(.9, 1.1, c.experts))
    yield same(p + "post_ffw_norm_2.weight", c.embd)
    yield same(p + "post_ffw_norm.weight", c.embd, FFN_STEP * np.sqrt(w.nz / c.embd))
