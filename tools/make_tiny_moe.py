#!/usr/bin/env python3
"""Write tiny random GGUF models, one for every shape of MoE graph that llama.cpp builds.

    make_tiny_moe.py --gguf-py LLAMA_CPP/gguf-py --out DIR [--only NAME[,NAME...]] [--seed N]
    make_tiny_moe.py --list

Writes DIR/NAME.gguf for every case, DIR/NAME-0000i-of-00003.gguf as well for some of them, and
DIR/cases.json, which describes what was written.  The models are noise, but well-behaved noise:
logits are finite, they depend on the whole context, and the routers spread tokens over all the
experts.  A file depends only on its case and on the seed, so the same seed gives the same bytes.
The whole set takes a few seconds and less than 60 MB.

Needs numpy and the gguf-py package of a llama.cpp tree.
"""

import argparse
import dataclasses
import importlib
import json
import math
import re
import sys
import types
import zlib
from pathlib import Path

try:
    import numpy as np
except ImportError as error:
    sys.exit(f"make_tiny_moe.py: numpy cannot be imported by {sys.executable} ({error}): install python3-numpy, or use a python3 that has it")

gguf = None     # the gguf-py package, once main() knows where it is

# --------------------------------------------------------------------------------------------
# Tensor specs.  A layer is a string of items "NAME:DIM,DIM,..[=KIND]", separated by blanks.
# Dimensions are in ggml's order (row length first): sums of products of numbers and of names out
# of DIMS.  NAME gets the suffix ".weight" unless it has one; "!" means no suffix.
# KIND says what the values look like (see VALUES); it is guessed from the name if missing.

DIMS = dict(
    E=256,            # embedding
    V=272,            # vocabulary, see add_tokenizer()
    H=4, K=2, D=64,   # attention heads, key/value heads, head size
    Q=256, KV=128,    # H*D and K*D
    F=128, FS=128,    # rows of a routed and of a shared expert
    FD=256,           # rows of a dense FFN
    X=8,              # routed experts
    CF=64, CX=4,      # rows and number of grovemoe's chunk experts
    QL=128, KVL=128,  # multi-head latent attention: ranks of Q and KV
    ROPE=32, NOPE=32, # its halves of a head
)


def layer(*parts):
    return " ".join(parts)


GLOBAL = "token_embd:E,V=embd output_norm:E output:E,V"
TIED = "token_embd:E,V=tied output_norm:E"

ATTN = "attn_norm:E attn_q:E,Q attn_k:E,KV attn_v:E,KV attn_output:Q,E"
QKV_BIAS = "attn_q.bias:Q attn_k.bias:KV attn_v.bias:KV"
QK_NORM = "attn_q_norm:D attn_k_norm:D"
MLA = ("attn_norm:E attn_q_a:E,QL attn_q_a_norm:QL attn_q_b:QL,Q attn_kv_a_mqa:E,KVL+ROPE "
       "attn_kv_a_norm:KVL attn_k_b:NOPE,KVL,H attn_v_b:KVL,D,H attn_output:Q,E")
KDA = ("attn_norm:E attn_q:E,Q attn_k:E,Q attn_v:E,Q attn_output:Q,E ssm_conv1d_q:4,1,Q,1 "
       "ssm_conv1d_k:4,1,Q,1 ssm_conv1d_v:4,1,Q,1 ssm_beta:E,H ssm_dt.bias:Q=dt ssm_norm:D")
GATED_DELTA = ("attn_norm:E attn_qkv:E,4*D+Q attn_gate:E,Q ssm_conv1d:4,4*D+Q ssm_dt.bias:H=dt "
               "ssm_a!:H=decay ssm_beta:E,H ssm_alpha:E,H ssm_norm:D ssm_out:Q,E")
GATED_ATTN = "attn_norm:E attn_q:E,2*Q attn_k:E,KV attn_v:E,KV attn_output:Q,E " + QK_NORM

BIG = dict(F=256, FS=256)     # for down projections in types with blocks of 256

DENSE = "ffn_gate:E,FD ffn_up:E,FD ffn_down:FD,E"
ROUTER = "ffn_gate_inp:E,X=router"
PROBS_B = "exp_probs_b.bias:X"
EXPERTS = "ffn_gate_exps:E,F,X ffn_up_exps:E,F,X ffn_down_exps:F,E,X"
MERGED = "ffn_gate_up_exps:E,2*F,X ffn_down_exps:F,E,X"
SHARED = "ffn_gate_shexp:E,FS ffn_up_shexp:E,FS ffn_down_shexp:FS,E"
SHARED_GATE = "ffn_gate_inp_shexp:E"
NORM = "ffn_norm:E"
MOE = layer(NORM, ROUTER, EXPERTS)
NEXTN = "nextn.eh_proj:2*E,E nextn.enorm:E nextn.hnorm:E nextn.shared_head_norm:E"


@dataclasses.dataclass
class Case:
    name: str
    arch: str
    covers: str
    layers: list            # one spec per layer
    # Types of the expert tensors: one item per MoE layer (cycled), each "ALL" or "GATE/UP/DOWN".
    quant: str = "Q4_K"
    top_k: object = 2       # a number, or one number per layer
    kv: dict = dataclasses.field(default_factory=dict)     # over the common keys of metadata()
    dims: dict = dataclasses.field(default_factory=dict)   # over DIMS
    root: str = GLOBAL      # the tensors outside of layers
    shards: bool = False    # write a 3-shard version too


# Keys of the MLA architectures: llama.cpp caches the compressed KV row as one shared head.
MLA_KV = {
    "attention.head_count_kv": 1, "attention.key_length": 160, "attention.value_length": 128,
    "attention.key_length_mla": 64, "attention.value_length_mla": 64,
    "attention.q_lora_rank": 128, "attention.kv_lora_rank": 128, "rope.dimension_count": 32,
}
KDA_KV = {"ssm.conv_kernel": 4, "kda.head_dim": 64, "kda.gate_lower_bound": -5.0}
DELTA_KV = {
    "ssm.conv_kernel": 4, "ssm.inner_size": 256, "ssm.state_size": 64, "ssm.time_step_rank": 4,
    "ssm.group_count": 2, "full_attention_interval": 2, "rope.dimension_sections": [8, 8, 8, 0],
    "rope.dimension_count": 32,
}
# Architectures that take the experts' size from the plain FFN size.
FF_KV = {"feed_forward_length": DIMS["F"]}
SIGMOID, SQRT_SOFTPLUS = 2, 4      # values of expert_gating_func

QWEN3 = layer(ATTN, QK_NORM, MOE)

CASES = [
    # Quantisation types, all with the plainest graph: softmax, top-k, renormalised weights.
    Case("qwen3moe", "qwen3moe", "plain softmax router; Q4_K_M pattern (down Q6_K in some layers)",
         [QWEN3] * 2, "Q4_K/Q4_K/Q6_K Q4_K", 4, dims=dict(BIG, X=16)),
    Case("qwen3moe_kquants", "qwen3moe", "k-quants, another type for every projection",
         [QWEN3] * 2, "Q2_K/Q3_K/Q4_K Q5_K/Q6_K/Q3_K", dims=BIG, shards=True),
    Case("qwen3moe_legacy", "qwen3moe", "32-value blocks",
         [QWEN3] * 2, "Q4_0/Q4_1/Q5_0 Q5_1/Q8_0/IQ4_NL"),
    Case("qwen3moe_iquants", "qwen3moe", "IQ types",
         [QWEN3] * 3, "IQ2_XXS/IQ2_XS/IQ2_S IQ3_XXS/IQ3_S/IQ4_XS IQ1_S/IQ1_M/IQ4_NL", 3, dims=BIG),
    Case("qwen3moe_float", "qwen3moe", "unquantised experts, and MXFP4",
         [QWEN3] * 2, "F16/BF16/F32 MXFP4"),
    Case("qwen3moe_lowbit", "qwen3moe", "ternary, 1-bit and 2-bit types",
         [QWEN3] * 2, "TQ1_0/TQ2_0/TQ1_0 Q1_0/Q2_0/TQ2_0", dims=BIG),
    Case("qwen3moe_scale", "qwen3moe", "per-expert .scale tensors, as NVFP4 models have them",
         [layer(QWEN3, "ffn_gate_exps.scale:X=scale2 ffn_up_exps.scale:X=scale2",
                "ffn_down_exps.scale:X=scale2")] * 2, "NVFP4"),
    Case("qwen3moe_many", "qwen3moe", "many small experts; down rows too short for k-quants",
         [QWEN3] * 2, "Q4_K/Q4_K/Q5_0", 8, dims=dict(X=64, F=32)),

    # Architectures.
    Case("qwen2moe", "qwen2moe", "shared expert with its own gate; weights not renormalised",
         [layer(ATTN, QKV_BIAS, MOE, SHARED, SHARED_GATE)] * 2, "Q4_K/Q4_K/Q6_K Q3_K", 4, dims=BIG),
    Case("qwen35moe", "qwen35moe", "hybrid of gated delta net and attention; gated shared expert",
         [layer(attn, "post_attention_norm:E", ROUTER, EXPERTS, SHARED, SHARED_GATE)
          for attn in (GATED_DELTA, GATED_ATTN)], "Q4_K/Q4_K/Q5_1", 4, DELTA_KV),
    Case("qwen35moe_mtp", "qwen35moe", "merged gate_up experts; an MTP layer with experts",
         [layer(attn, "post_attention_norm:E", ROUTER, MERGED, SHARED, SHARED_GATE)
          for attn in (GATED_DELTA, GATED_ATTN, layer(GATED_ATTN, NEXTN))], "Q3_K/Q3_K/IQ4_NL", 4,
         DELTA_KV | {"nextn_predict_layers": 1}),
    Case("gemma4", "gemma4", "merged gate_up, GELU, down scale per expert, dense FFN in parallel, "
         "router on the raw residual; sliding window", [
             layer(ATTN, QK_NORM, NORM, DENSE, ROUTER, MERGED, "ffn_gate_inp.scale:E=embscale",
                   "ffn_down_exps.scale:X post_attention_norm:E post_ffw_norm:E pre_ffw_norm_2:E",
                   "post_ffw_norm_1:E post_ffw_norm_2:E layer_output_scale:1=ones")] * 2,
         "Q4_K/Q4_K/Q8_0", 3,
         {"attention.sliding_window": 64, "attention.sliding_window_pattern": [True, False],
          "attention.key_length_swa": 64, "attention.value_length_swa": 64,
          "embedding_length_per_layer_input": 0, "final_logit_softcapping": 30.0,
          "rope.dimension_count_swa": 64, "rope.freq_base_swa": 10000.0},
         root="token_embd:E,V=tied output_norm:E output:E,V rope_freqs:32=ones"),
    Case("gpt-oss", "gpt-oss", "MXFP4 experts with biases, router bias, softmax after top-k, "
         "clamped swiglu; attention sinks, sliding window", [
             layer(ATTN, QKV_BIAS, "attn_output.bias:E attn_sinks:H post_attention_norm:E",
                   ROUTER, EXPERTS, "ffn_gate_inp.bias:X ffn_gate_exps.bias:F,X",
                   "ffn_up_exps.bias:F,X ffn_down_exps.bias:E,X")] * 2, "MXFP4", 4,
         {"attention.sliding_window": 128}, dims=dict(X=16), shards=True),
    Case("lfm2moe", "lfm2moe", "short convolutions; a leading dense layer; selection bias", [
             layer("attn_norm:E shortconv.conv:3,E shortconv.in_proj:E,3*E shortconv.out_proj:E,E",
                   NORM, DENSE),
             layer(ATTN, QK_NORM, MOE, PROBS_B),
             layer("attn_norm:E shortconv.conv:3,E shortconv.in_proj:E,3*E shortconv.out_proj:E,E",
                   MOE, PROBS_B)], "Q4_0 Q6_K/Q6_K/Q8_0", 4,
         {"shortconv.l_cache": 3, "leading_dense_block_count": 1, "expert_gating_func": SIGMOID,
          "attention.head_count_kv": [0, 2, 0]},
         root="token_embd:E,V=tied token_embd_norm:E", shards=True),
    Case("deepseek2", "deepseek2", "MLA; a leading dense layer; shared expert; sigmoid router with "
         "selection bias and expert groups",
         [layer(MLA, NORM, DENSE)] + [layer(MLA, MOE, PROBS_B, SHARED)] * 2,
         "Q4_K/Q4_K/Q5_0 Q2_K/Q2_K/Q4_1", 3,
         MLA_KV | {"leading_dense_block_count": 1, "expert_shared_count": 1,
                   "expert_weights_scale": 2.5, "expert_weights_norm": True,
                   "expert_gating_func": SIGMOID, "expert_group_count": 4,
                   "expert_group_used_count": 2}),
    Case("deepseek4", "deepseek4", "experts looked up by token id in layer 0 (hash routing); "
         "sqrt-softplus router; clamped swiglu; hyper-connections; compressed attention", [
             layer("attn_norm:E attn_sinks:H attn_q_a:E,D attn_q_a_norm:D attn_q_b:D,Q attn_kv:E,D",
                   "attn_kv_a_norm:D attn_output_a:D*2,D attn_output_b:D,E",
                   "hc_attn_fn:4*E,24 hc_attn_base:24 hc_attn_scale:3=scale",
                   "hc_ffn_fn:4*E,24 hc_ffn_base:24 hc_ffn_scale:3=scale", MOE, SHARED, extra)
             for extra in (
                 "ffn_gate_tid2eid:3,V=table",
                 "attn_compressor_kv:E,2*D attn_compressor_gate:E,2*D attn_compressor_ape:2*D,4 "
                 "attn_compressor_norm:D indexer.proj:E,4 indexer.attn_q_b:D,4*D "
                 "indexer_compressor_kv:E,2*D indexer_compressor_gate:E,2*D "
                 "indexer_compressor_ape:2*D,4 indexer_compressor_norm:D " + PROBS_B,
                 "attn_compressor_kv:E,D attn_compressor_gate:E,D attn_compressor_ape:D,128 "
                 "attn_compressor_norm:D " + PROBS_B)], "Q2_K/Q2_K/Q4_0 MXFP4", 3,
         {"attention.head_count_kv": 1, "attention.q_lora_rank": 64, "rope.dimension_count": 32,
          "attention.sliding_window": 32, "attention.output_group_count": 2,
          "attention.output_lora_rank": 32, "attention.compress_ratios": [0, 4, 128],
          "attention.compress_rope_freq_base": 160000.0, "attention.indexer.head_count": 4,
          "attention.indexer.key_length": 64, "attention.indexer.top_k": 8,
          "hyper_connection.count": 4, "hyper_connection.sinkhorn_iterations": 2,
          "hyper_connection.epsilon": 1e-6, "hash_layer_count": 1, "swiglu_clamp_exp": 10.0,
          "expert_gating_func": SQRT_SOFTPLUS, "expert_shared_count": 1,
          "expert_weights_scale": 1.5, "expert_weights_norm": True},
         root=layer(GLOBAL, "output_hc_fn:4*E,4 output_hc_base:4 output_hc_scale:1=scale")),
    Case("bailingmoe3", "bailingmoe3", "hybrid of KDA and gated MLA; expert groups; swiglu with "
         "clamps set per layer", [
             layer(KDA, "ssm_f_a:E,Q ssm_g_a:E,Q ssm_a!:1,H=scale", NORM, DENSE),
             layer(MLA, "attn_gate:E,H", MOE, PROBS_B, SHARED),
             layer(KDA, "ssm_f_a:E,Q ssm_g_a:E,Q ssm_a!:1,H=scale", MOE, PROBS_B, SHARED)],
         "IQ4_XS/IQ4_XS/IQ4_NL Q3_K/Q3_K/Q5_1", 2,
         MLA_KV | KDA_KV | {
             "attention.head_count_kv": [0, 1, 0], "leading_dense_block_count": 1,
             "expert_shared_count": 1,
             "expert_weights_scale": 2.5, "expert_weights_norm": True,
             "expert_gating_func": SIGMOID, "expert_group_count": 4, "expert_group_used_count": 2,
             "swiglu_clamp_exp": [0.0, 0.0, 1.0], "swiglu_clamp_shexp": [0.0, 0.0, 1.5]}),
    Case("glm4moe", "glm4moe", "a leading dense layer; an MTP layer whose experts stay unused",
         [layer(ATTN, QKV_BIAS, "post_attention_norm:E", ffn) for ffn in (
             DENSE, layer(ROUTER, EXPERTS, PROBS_B, SHARED),
             layer(ROUTER, EXPERTS, PROBS_B, SHARED, NEXTN))], "Q4_K/Q4_K/Q5_1", 2,
         {"nextn_predict_layers": 1, "leading_dense_block_count": 1, "expert_shared_count": 1,
          "expert_weights_norm": True, "expert_weights_scale": 1.5}),
    Case("llama4", "llama4", "a dense layer before every MoE layer; top-1; weights applied to the "
         "expert's input; chunked attention, NoPE",
         [layer(ATTN, NORM, DENSE), layer(ATTN, MOE, SHARED)] * 2, "Q4_K/Q4_K/Q6_K Q4_K", 1,
         {"interleave_moe_layer_step": 2}, BIG),
    Case("llama", "llama", "Mixtral", [layer(ATTN, MOE)] * 2, "Q4_0/Q4_0/Q5_0", 2, FF_KV),
    Case("olmoe", "olmoe", "weights not renormalised; Q/K norms over all heads",
         [layer("attn_norm:E attn_q:E,E attn_k:E,E attn_v:E,E attn_output:E,E",
                "attn_q_norm:E attn_k_norm:E", MOE)] * 2, "Q4_K/Q4_K/Q8_0", 4, FF_KV, dict(K=4)),
    Case("granitemoe", "granitemoe", "residual, embedding and logit scales; shared expert",
         [layer(ATTN, MOE, SHARED)] * 2, "Q5_K/Q5_K/Q5_0 Q2_K/Q2_K/Q4_0", 3,
         FF_KV | {"logit_scale": 0.5, "residual_scale": 0.8,
                  "embedding_scale": 2.0, "attention.scale": 0.125}, root=TIED),
    Case("nemotron_h_moe", "nemotron_h_moe", "no gate projection, squared ReLU, experts in a latent "
         "space, top-k and expert size set per layer; Mamba-2", [
             "attn_norm:E ssm_in:E,1288 ssm_conv1d:4,768 ssm_conv1d.bias:768 ssm_dt.bias:8=dt "
             "ssm_a!:1,8=decay ssm_d!:1,8 ssm_norm:256,2 ssm_out:512,E",
             ATTN] + [
             layer("attn_norm:E", ROUTER, PROBS_B, "ffn_latent_down:E,128 ffn_latent_up:128,E",
                   f"ffn_up_exps:128,{f},X ffn_down_exps:{f},128,X",
                   "ffn_up_shexp:E,FS ffn_down_shexp:FS,E")
             for f in (128, 256)], "Q5_0/Q5_0/Q4_0 Q8_0/Q8_0/Q6_K", [0, 0, 4, 2],
         {"ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 64, "ssm.time_step_rank": 8,
          "ssm.group_count": 2, "attention.head_count_kv": [0, 2, 0, 0],
          "feed_forward_length": [0, 0, 128, 256], "expert_feed_forward_length": [0, 0, 128, 256],
          "expert_shared_count": 1, "expert_weights_norm": True, "expert_weights_scale": 2.5,
          "moe_latent_size": 128}),
    Case("grovemoe", "grovemoe", "a second set of experts (chexps) over the first one's output, "
         "with ids derived by division, so that they repeat within a token",
         [layer(QWEN3, "ffn_gate_chexps:E,CF,CX ffn_up_chexps:E,CF,CX ffn_down_chexps:CF,E,CX")] * 2,
         "Q4_K/Q4_K/Q8_0", 3,
         {"expert_chunk_feed_forward_length": 64, "expert_group_scale": 0.5,
          "experts_per_group": 2}),
    Case("smallthinker", "smallthinker", "routed before attention; ReLU gate",
         [layer(ATTN, MOE)] * 2, "Q4_K/Q4_K/IQ4_NL", 3, {"expert_gating_func": SIGMOID}),
    Case("arctic", "arctic", "experts on the layer's input, in parallel to attention and dense FFN",
         [layer(ATTN, NORM, DENSE, ROUTER, EXPERTS, "ffn_norm_exps:E")] * 2,
         "IQ3_S/IQ3_S/Q4_0", 2, FF_KV),
    Case("kimi-k3", "kimi-k3", "experts in a latent space with the SiTU activation; residual "
         "attention; hybrid of KDA and MLA", [
             layer(attn, "attn_res_score:E ffn_res_score:E", ffn)
             for attn, ffn in (
                 (layer(KDA, "ssm_f_a:E,D ssm_f_b:D,Q ssm_g:E,Q ssm_a!:H=decay"), layer(NORM, DENSE)),
                 (layer(MLA, "attn_gate:E,Q"),
                  layer(NORM, ROUTER, PROBS_B, SHARED, "ffn_routed_down:E,128 ffn_routed_up:128,E",
                        "ffn_routed_norm:128 ffn_gate_exps:128,F,X ffn_up_exps:128,F,X",
                        "ffn_down_exps:F,128,X")))], "MXFP4", 3,
         MLA_KV | KDA_KV | {
             "attention.head_count_kv": [0, 1], "leading_dense_block_count": 1,
             "expert_shared_count": 1, "expert_weights_norm": True, "expert_weights_scale": 2.5,
             "expert_gating_func": SIGMOID, "expert_latent_length": 128,
             "attn_res.block_size": 1, "activation.situ_beta": 4.0,
             "activation.situ_linear_beta": 25.0},
         root=layer(GLOBAL, "output_res_score:E")),

    # Models without experts.
    Case("qwen3", "qwen3", "no experts", [layer(ATTN, QK_NORM, NORM, DENSE)] * 2, "", 0),
    Case("graniteswitch", "graniteswitch", "no experts, but MUL_MAT_ID over stacked LoRA adapters", [
             layer("attn_norm:E attn_qkv:E,Q+2*KV attn_output:Q,E", NORM, DENSE, *(
                 f"{name}.lora_a:{n_in},16,3 {name}.lora_b:16,{n_out},3" for name, n_in, n_out in (
                     ("attn_q", "E", "Q"), ("attn_k", "E", "KV"), ("attn_v", "E", "KV"),
                     ("attn_output", "Q", "E"), ("ffn_gate", "E", "FD"), ("ffn_up", "E", "FD"),
                     ("ffn_down", "FD", "E"))))] * 2, "", 0,
         # the letters "e" and "o" switch to an adapter
         {"logit_scale": 0.5, "adapters.count": 2, "adapters.lora_rank": 16,
          "adapters.router_gain": 32.0, "adapters.token_ids_activate": [68, 78],
          "adapters.token_ids_substitute": [68, 78]}),
]

# --------------------------------------------------------------------------------------------
# Values.  Matrices are scaled by the root of their row length, which keeps activations near 1.

# Standard deviation of the Gaussian kinds, for a row length.
STD = {
    "normal": lambda row: row ** -0.5,
    "query": lambda row: 3 * row ** -0.5,   # sharp attention: an average over many tokens is no input
    "router": lambda row: 2 * row ** -0.5,  # far from a tie
    "embd": lambda row: 1,
    "tied": lambda row: 1 / 32,             # where it is the output matrix too, or else tokens repeat
    "bias": lambda row: 0.1,
}
VALUES = {
    "norm": lambda r, shape: 1 + 0.1 * r.standard_normal(shape),
    "sharp": lambda r, shape: 3 + 0.3 * r.standard_normal(shape),
    "ones": lambda r, shape: np.ones(shape),
    "scale": lambda r, shape: r.uniform(0.5, 1.5, shape),
    "scale2": lambda r, shape: r.uniform(0.5, 1.5, shape) / 64,     # see set_scale(), NVFP4
    "embscale": lambda r, shape: r.uniform(12, 20, shape),          # undoes a 1/sqrt(E)
    "decay": lambda r, shape: -r.uniform(0.5, 2, shape),            # decay rates of a recurrent state
    "dt": lambda r, shape: -3 + 0.5 * r.standard_normal(shape),     # softplus() of it is a time step
    # distinct expert ids for every token
    "table": lambda r, shape: np.stack([r.permutation(DIMS["X"])[:shape[-1]] for _ in range(shape[0])]),
}


def kind_of(name, shape):
    if "norm" in name:
        return "sharp" if "attn_q_norm" in name else "norm"
    if name.endswith(".scale"):
        return "scale"
    if len(shape) == 1 or name.endswith(".bias"):
        return "bias"
    return "query" if re.search(r"attn_q(_b)?\.weight", name) else "normal"


# Matrices that llama.cpp wants in, or converters always leave in, F32.
KEEP_F32 = re.compile(r"norm|conv1d|shortconv\.conv|gate_inp|hc_|_ape")
PROJECTIONS = {"gate": 0, "gate_up": 0, "up": 1, "down": 2}
EXPERT = re.compile(r"\.ffn_(gate|gate_up|up|down)_(?:ch)?exps\.weight$")


def type_of(name, shape, kind, quant):
    """The tensor's type.  quant holds the types of the layer's gate, up and down projections."""
    if kind == "table":
        return "I32"
    match = EXPERT.search(name)
    if match:
        qtype = quant[PROJECTIONS[match[1]]]
    elif ".lora_" in name:
        return "F16"
    elif len(shape) == 1 or not name.endswith(".weight") or KEEP_F32.search(name):
        return "F32"
    else:
        qtype = "Q8_0" if name == "token_embd.weight" else "Q4_0"
    # a row must be a number of whole blocks; llama-quantize steps back to a smaller block too
    return qtype if shape[-1] % block_size(qtype)[0] == 0 else "Q8_0"


# --------------------------------------------------------------------------------------------
# Quantised tensors.  gguf-py can quantise to some types only, so blocks are made of random bytes
# with a sane scale instead: every bit pattern of the quants (and of the small integer scales
# that most types keep per sub-block) is valid in every type.

# Where a block keeps its float16 scales: (byte offset, factor on the block's scale) each.  The
# offset of types with a minimum is chosen to centre the values.  Default: one, at the start.
F16_SCALES = {
    "Q4_1": [(0, 1), (2, -7.5)], "Q5_1": [(0, 1), (2, -15.5)],
    "Q2_K": [(80, 1), (82, 1.5)], "Q3_K": [(108, 1)], "Q4_K": [(0, 1), (2, 7.5)],
    "Q5_K": [(0, 1), (2, 15.5)], "Q6_K": [(208, 1)], "TQ1_0": [(52, 1)], "TQ2_0": [(64, 1)],
}
# Root mean square of a block with scale 1, for the types that gguf-py cannot dequantise.
UNIT_RMS = {"Q1_0": 1.0, "Q2_0": math.sqrt(1.5)}


def block_size(qtype):
    return gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[qtype]]


def set_scale(qtype, blocks, d):
    """Set the scale of every block to d."""
    if qtype == "MXFP4":        # the scale is a power of two
        blocks[:, 0] = np.rint(127 + np.log2(np.abs(d)))
    elif qtype == "NVFP4":      # a float8 per 16 values, kept at 1..2: these models have .scale tensors
        blocks[:, :4] = 0x38 | (blocks[:, :4] & 7)
    elif qtype == "IQ1_M":      # the float16 is cut into the top nibbles of the four 16-bit scales
        scales = blocks[:, 48:].copy().view("<u2")
        bits = d.astype("<f2").view("<u2").reshape(-1, 1)
        nibbles = (bits >> np.array([0, 4, 8, 12], "<u2")) & 0xF
        blocks[:, 48:] = ((scales & 0x0FFF) | (nibbles << 12)).astype("<u2").view(np.uint8)
    else:
        for offset, factor in F16_SCALES.get(qtype, [(0, 1)]):
            blocks[:, offset:offset + 2] = (d * factor).astype("<f2").view(np.uint8).reshape(-1, 2)


def random_bytes(r, n_blocks, n_bytes):
    return np.frombuffer(r.bytes(n_blocks * n_bytes), np.uint8).reshape(n_blocks, n_bytes).copy()


def unit_rms(qtype):
    if qtype not in UNIT_RMS:
        blocks = random_bytes(np.random.RandomState(0), 1024, block_size(qtype)[1])
        set_scale(qtype, blocks, np.ones(len(blocks)))
        values = gguf.dequantize(blocks, gguf.GGMLQuantizationType[qtype])
        UNIT_RMS[qtype] = math.sqrt(np.mean(np.square(values, dtype=np.float64)))
    return UNIT_RMS[qtype]


def encode(qtype, kind, shape, r):
    """Random data of the given type: an array of bytes, shaped like the tensor but for its rows."""
    if qtype in ("F32", "F16", "BF16", "I32"):
        if kind in STD:
            values = STD[kind](shape[-1]) * r.standard_normal(shape)
        else:
            values = VALUES[kind](r, shape)
        if qtype == "BF16":
            values = (values.astype("<f4").view("<u4") >> 16).astype("<u2")
        else:
            values = values.astype({"F32": "<f4", "F16": "<f2", "I32": "<i4"}[qtype])
        return np.ascontiguousarray(values).view(np.uint8)
    n_values, n_bytes = block_size(qtype)
    n_blocks = math.prod(shape) // n_values
    blocks = random_bytes(r, n_blocks, n_bytes)
    # both signs, as values are not quite symmetric in several types: a bias would add up
    d = r.uniform(0.75, 1.25, n_blocks) * r.choice([-1, 1], n_blocks)
    set_scale(qtype, blocks, d * STD[kind](shape[-1]) / unit_rms(qtype))
    return blocks.reshape(*shape[:-1], shape[-1] // n_values * n_bytes)


# --------------------------------------------------------------------------------------------
# Files.

def dimension(expression, dims):
    return sum(math.prod(dims[word] if word in dims else int(word) for word in term.split("*"))
               for term in expression.split("+"))


def tensors(case):
    """Yield (name, type, kind, shape in numpy's order) for all tensors of a case."""
    dims = DIMS | case.dims
    quants = [(item.split("/") * 3)[:3] for item in case.quant.split()]
    n_moe = 0
    for prefix, spec in [("", case.root)] + [(f"blk.{i}.", s) for i, s in enumerate(case.layers)]:
        quant = None
        if "exps:" in spec:
            quant = quants[n_moe % len(quants)]
            n_moe += 1
        for item in spec.split():
            name, shape, kind = re.fullmatch(r"([^:]+):([^=]+)(?:=(\w+))?", item).groups()
            if name.endswith("!"):
                name = name[:-1]
            elif not name.endswith((".bias", ".scale", ".lora_a", ".lora_b")):
                name += ".weight"
            name = prefix + name
            shape = tuple(dimension(d, dims) for d in reversed(shape.split(",")))
            kind = kind or kind_of(name, shape)
            yield name, type_of(name, shape, kind, quant), kind, shape


def metadata(case):
    """The architecture's own keys.  llama.cpp ignores the ones that an architecture does not know."""
    dims = DIMS | case.dims
    kv = {
        "vocab_size": dims["V"], "context_length": 2048, "embedding_length": dims["E"],
        "block_count": len(case.layers), "feed_forward_length": dims["FD"],
        "attention.head_count": dims["H"], "attention.head_count_kv": dims["K"],
        "attention.key_length": dims["D"], "attention.value_length": dims["D"],
        "attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": dims["D"],
    }
    if case.quant:
        kv |= {"expert_count": dims["X"], "expert_used_count": case.top_k,
               "expert_feed_forward_length": dims["F"]}
        if any("_shexp:" in spec for spec in case.layers):
            kv["expert_shared_feed_forward_length"] = dims["FS"]
    return kv | case.kv


def vocabulary():
    """A byte-level BPE: tokens for the 256 bytes and a few merges, and the merges."""
    # GPT-2's way to write bytes: printable ones as they are, the others as letters from U+0100 on
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [b for b in range(256) if b not in printable]
    tokens = [chr(b) for b in printable] + [chr(0x100 + i) for i in range(len(other))]
    space = chr(0x100 + other.index(ord(" ")))
    merges = ["h e", f"{space} t", f"{space}t he", "i n", "e r", "o n", f"{space} a", "r e",
              "a n", "o r", "e n", f"{space} s", "t i", "in g"]
    return tokens + [m.replace(" ", "") for m in merges], merges


def add_tokenizer(writer, n_vocab):
    tokens, merges = vocabulary()
    n_normal = len(tokens)
    tokens += ["<|endoftext|>", "<|im_end|>"]
    assert len(tokens) == n_vocab
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * n_normal + [gguf.TokenType.CONTROL] * 2)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(n_normal)
    writer.add_eos_token_id(n_normal)
    writer.add_eot_token_id(n_normal + 1)
    writer.add_add_bos_token(False)


def add_key(writer, key, value):
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32,
           list: writer.add_array}
    add[type(value)](key, value)


def write_case(case, out, seed):
    """Write the files of a case and return its entry in cases.json."""
    data = []
    for name, qtype, kind, shape in tensors(case):
        # RandomState, because its streams are frozen: a newer numpy must give the same bytes
        r = np.random.RandomState(zlib.crc32(f"{seed} {case.name} {name}".encode()))
        data.append((name, encode(qtype, kind, shape, r), gguf.GGMLQuantizationType[qtype]))
    path = out / f"{case.name}.gguf"
    # 0 means no split; gguf-py names shards and writes their split.* keys as gguf-split does
    for max_tensors in [0, -(-len(data) // 3)] if case.shards else [0]:
        writer = gguf.GGUFWriter(path, case.arch, split_max_tensors=max_tensors)
        writer.add_name(case.name)
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        for key, value in metadata(case).items():
            add_key(writer, f"{case.arch}.{key}", value)
        add_tokenizer(writer, DIMS["V"])
        for name, array, qtype in data:
            writer.add_tensor(name, array, raw_dtype=qtype)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    kv = metadata(case)
    entry = {
        "name": case.name, "file": path.name, "architecture": case.arch, "covers": case.covers,
        "experts": bool(case.quant), "n_layer": kv["block_count"],
        "n_expert": kv.get("expert_count", 0), "top_k": case.top_k,
        "quant_types": sorted({qtype.name for name, _, qtype in data if EXPERT.search(name)}),
    }
    if case.shards:
        entry["shards"] = [f"{case.name}-{i:05d}-of-00003.gguf" for i in (1, 2, 3)]
    return entry


def import_gguf(path):
    # gguf-py imports yaml for model cards, and older ones need tqdm and requests: all unused here
    for name in ("yaml", "tqdm", "requests"):
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = types.ModuleType(name)
    sys.path.insert(0, str(path))
    return importlib.import_module("gguf")


def main():
    global gguf
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gguf-py", metavar="PATH", type=Path)
    parser.add_argument("--out", metavar="DIR", type=Path)
    parser.add_argument("--only", metavar="NAME[,NAME...]")
    parser.add_argument("--list", action="store_true", help="print the cases and exit")
    parser.add_argument("--seed", metavar="N", type=int, default=1)
    args = parser.parse_args()

    names = args.only.split(",") if args.only else [case.name for case in CASES]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    cases = [case for case in CASES if case.name in names]
    if args.list:
        for case in cases:
            print(f"{case.name:18} {case.covers}")
        return
    if not args.gguf_py or not args.out:
        parser.error("--gguf-py and --out are needed")
    gguf = import_gguf(args.gguf_py)
    args.out.mkdir(parents=True, exist_ok=True)
    entries = [write_case(case, args.out, args.seed) for case in cases]
    (args.out / "cases.json").write_text(json.dumps(entries, indent=1) + "\n")


if __name__ == "__main__":
    main()
