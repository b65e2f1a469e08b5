"""Converts a Hugging Face folder to model.gguf, with llama.cpp's names, keys and order of rows.

Only what make_models.py needs; written from the format's documentation and the `gguf` package.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "gemma2": "gemma2",
    "gemma3_text": "gemma3",
    "phi3": "phi3",
    "olmo2": "olmo2",
    "gpt_oss": "gpt-oss",
}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.sinks": "attn_sinks",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.gate": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp",
}
NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
EXPERTS = {"w1": "gate", "w2": "down", "w3": "up"}


def turn_rows(weights: np.ndarray, heads: int) -> np.ndarray:
    """Reorders rows: RoPE pairs rows half a head apart in Hugging Face, neighbours in llama.cpp."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def llama3_factors(rope: dict[str, Any], dims: int) -> np.ndarray:
    factors = []
    old = rope["original_max_position_embeddings"]
    for i in range(dims // 2):
        wave = 2 * math.pi * rope["rope_theta"] ** (2 * i / dims)
        if wave < old / rope["high_freq_factor"]:
            factors.append(1.0)
        elif wave > old / rope["low_freq_factor"]:
            factors.append(rope["factor"])
        else:
            low, high = rope["low_freq_factor"], rope["high_freq_factor"]
            smooth = (old / wave - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


def blocks_of(blocks: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Converts MXFP4 of gpt-oss to GGUF: the exponent first, numbers i and i + 16 in one byte."""
    numbers = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:-1], 32)
    packed = numbers[..., :16] | numbers[..., 16:] << 4
    joined = np.concatenate([scales[..., None], packed], -1)
    return joined.reshape(*joined.shape[:-2], -1)


class Converter:
    def __init__(self, folder: Path, config: Any, dtype: str) -> None:
        self.config = config
        self.dtype = Type[dtype]
        self.arch = ARCHITECTURES[config.model_type]
        self.writer = gguf.GGUFWriter(folder / "model.gguf", self.arch)
        self.dims = config.head_dim
        self.stacks: dict[str, list[np.ndarray]] = {}
        tensors: dict[str, torch.Tensor] = {}
        for path in sorted(folder.glob("model*.safetensors")):
            tensors |= load_file(path)
        bits = {name: t.numpy() for name, t in tensors.items() if t.dtype == torch.uint8}
        floats = {name: t.float().numpy() for name, t in tensors.items() if name not in bits}
        self.metadata()
        for name in sorted(floats):
            self.tensor(name, floats[name])
        for name, stack in self.stacks.items():
            self.add(name, np.stack(stack))
        for name in sorted(bits):
            if name.endswith("_blocks"):
                self.mxfp4(name.removesuffix("_blocks"), bits)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def metadata(self) -> None:
        config, writer = self.config, self.writer
        writer.add_block_count(config.num_hidden_layers)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_vocab_size(config.vocab_size)
        experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
        if experts:
            writer.add_expert_count(experts)
            writer.add_expert_used_count(config.num_experts_per_tok)
            size = getattr(config, "moe_intermediate_size", config.intermediate_size)
            writer.add_expert_feed_forward_length(size)
        if getattr(config, "sliding_window", None):
            writer.add_sliding_window(config.sliding_window)
        if self.arch == "gemma2":
            writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
        if self.arch == "gemma3":
            writer.add_attention_scale(config.query_pre_attn_scalar**-0.5)
            writer.add_sliding_window_pattern(
                [kind == "sliding_attention" for kind in config.layer_types]
            )
        self.rope()

    def rope(self) -> None:
        config, writer = self.config, self.writer
        rope = dict(config.rope_parameters)
        if "full_attention" in rope:
            writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
            rope = dict(rope["full_attention"])
        self.dims = int(config.head_dim * (rope.get("partial_rotary_factor") or 1))
        writer.add_rope_dimension_count(self.dims)
        writer.add_rope_freq_base(rope["rope_theta"])
        kind = rope["rope_type"]
        if kind in ("linear", "yarn"):
            writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
            writer.add_rope_scaling_factor(rope["factor"])
        if kind == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if kind == "llama3":
            writer.add_tensor("rope_freqs.weight", llama3_factors(rope, self.dims))
        if kind == "longrope":
            old = rope["original_max_position_embeddings"]
            stretch = config.max_position_embeddings / old
            writer.add_rope_scaling_orig_ctx_len(old)
            writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(old)))
            for length in ("short", "long"):
                factors = np.array(rope[length + "_factor"], np.float32)
                writer.add_tensor(f"rope_factors_{length}.weight", factors)

    def tensor(self, name: str, values: np.ndarray) -> None:
        layer = re.match(r"model\.layers\.(\d+)\.(.*)", name)
        prefix, rest = (f"blk.{layer[1]}.", layer[2]) if layer else ("", name)
        expert = re.match(r"(?:mlp|block_sparse_moe)\.experts\.\d+\.(\w+?)(?:_proj)?\.weight", rest)
        if expert:  # sorted by name, which is by number because there are fewer than ten
            kind = EXPERTS.get(expert[1], expert[1])
            self.stacks.setdefault(f"{prefix}ffn_{kind}_exps.weight", []).append(values)
            return
        if rest.startswith("mlp.experts."):
            self.gpt_oss_experts(prefix, rest.removeprefix("mlp.experts."), values)
            return
        part, kind = (
            rest.rsplit(".", 1) if rest.endswith((".weight", ".bias")) else (rest, "weight")
        )
        names = NAMES | NORMS if self.arch.startswith(("gemma", "olmo2")) else NAMES
        if self.arch == "gpt-oss":
            names = NAMES | {"post_attention_layernorm": "post_attention_norm"}
        if self.arch.startswith("gemma") and "norm" in part:
            values = values + 1
        if self.arch == "llama" and part in ("self_attn.q_proj", "self_attn.k_proj"):
            queries = part == "self_attn.q_proj"
            config = self.config
            heads = config.num_attention_heads if queries else config.num_key_value_heads
            values = turn_rows(values, heads)
        self.add(f"{prefix}{names[part]}.{kind}", values)

    def gpt_oss_experts(self, prefix: str, part: str, values: np.ndarray) -> None:
        kind = "bias" if part.endswith("_bias") else "weight"
        if kind == "weight":
            values = values.transpose(0, 2, 1)
        if part.startswith("down"):
            self.add(f"{prefix}ffn_down_exps.{kind}", values)
        else:
            self.add(f"{prefix}ffn_gate_exps.{kind}", values[:, 0::2])
            self.add(f"{prefix}ffn_up_exps.{kind}", values[:, 1::2])

    def mxfp4(self, name: str, bits: dict[str, np.ndarray]) -> None:
        blocks, scales = bits[name + "_blocks"], bits[name + "_scales"]
        prefix = f"blk.{name.split('.')[2]}."
        parts = {"down": slice(None)} if "down" in name else {"gate": slice(0, None, 2)}
        if "gate" in parts:
            parts["up"] = slice(1, None, 2)
        for part, rows in parts.items():
            data = blocks_of(blocks[:, rows], scales[:, rows])
            self.writer.add_tensor(f"{prefix}ffn_{part}_exps.weight", data, raw_dtype=Type.MXFP4)

    def add(self, name: str, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values, np.float32)
        # llama.cpp keeps norms, biases and routers in F32.
        small = values.ndim == 1 or name.endswith(".bias") or "ffn_gate_inp" in name
        dtype = Type.F32 if small else self.dtype
        data = quantize(values, dtype)
        assert np.array_equal(dequantize(data, dtype), values), name
        self.writer.add_tensor(name, data, raw_dtype=dtype)


def write_gguf(folder: Path, config: Any, dtype: str) -> None:
    Converter(folder, config, dtype)
