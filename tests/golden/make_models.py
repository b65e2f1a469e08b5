#!/usr/bin/env python3
"""Writes models/: a tiny random model of every architecture, with the results of transformers.

    pip install torch==2.15.0 transformers==5.22.2 gguf==0.19.0
    python tests/golden/make_models.py [NAME …]

Each folder below models/ is a Hugging Face folder (config.json and safetensors) with two more
files: model.gguf, the same weights under llama.cpp's names, and golden.safetensors, which has a
prompt, the logits of all its tokens, and the 64 tokens that follow greedily, computed in float32
without a cache. src/backend/cpu/golden_test.cc runs both forms and compares.

Weights are small whole numbers times a power of two: exact in every float type, and they compress.
A seed is taken only if the best two logits are never close, so that rounding cannot turn a token.
Devices keep keys and values in 16 bits; so that nothing else hides behind what this costs,
golden.safetensors also has the logits and the last hidden states (after the last norm) of a run in
which transformers rounds them, too.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from gguf_models import write_gguf
from safetensors.numpy import save_file

HERE = Path(__file__).parent / "models"
PROMPT = 24
STEPS = 64
LEAST_GAP = 0.05  # the least distance between the best two logits
LEAST_WORDS = 12
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass
class Model:
    config: type
    sizes: dict[str, Any]
    dtype: str = "BF16"
    shards: str = "1GB"  # the largest size of a shard
    max_positions: int = 0  # of the device in the test; 0 = the model's own
    mxfp4: bool = False
    seed: int = 0  # the first seed to try; smaller ones give unusable models
    tensors: dict[str, np.ndarray] = field(default_factory=dict)


COMMON = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "intermediate_size": 36,
    "vocab_size": 53,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1000.0,
    "short_factor": [1.0, 1.25, 2.0],
    "long_factor": [1.5, 3.0, 9.0],
    "partial_rotary_factor": 0.75,
}
MODELS = {
    "llama": Model(
        transformers.LlamaConfig,
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 100.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
        dtype="F32",
    ),
    "mistral": Model(
        transformers.MistralConfig,
        {
            "sliding_window": 9,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.5},
        },
    ),
    "qwen2": Model(
        transformers.Qwen2Config,
        {
            "tie_word_embeddings": True,
            "head_dim": 6,  # hidden_size / heads: the family supports no other size
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 128,
            },
        },
        dtype="F16",
    ),
    "qwen3": Model(transformers.Qwen3Config, {"head_dim": 16}, shards="12KB"),
    "qwen3moe": Model(
        transformers.Qwen3MoeConfig,
        {
            "num_experts": 5,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 12,
            "norm_topk_prob": True,
        },
    ),
    "mixtral": Model(
        transformers.MixtralConfig,
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "intermediate_size": 20,
            "sliding_window": None,
        },
    ),
    "gemma2": Model(
        transformers.Gemma2Config,
        {
            "num_hidden_layers": 3,
            "sliding_window": 8,
            "query_pre_attn_scalar": 10,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 20.0,
            "tie_word_embeddings": True,
        },
    ),
    "gemma3": Model(
        transformers.Gemma3TextConfig,
        {
            "num_hidden_layers": 3,
            "sliding_window": 7,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "query_pre_attn_scalar": 17,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 3000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
            "tie_word_embeddings": True,
        },
        seed=19,
    ),
    "phi3": Model(
        transformers.Phi3Config,
        {
            "hidden_size": 32,
            "head_dim": 8,  # hidden_size / heads, as above
            "original_max_position_embeddings": 128,
            "rope_parameters": LONG_ROPE | {"original_max_position_embeddings": 128},
        },
        max_positions=128,
    ),
    "phi3-long": Model(
        transformers.Phi3Config,
        {
            "hidden_size": 32,
            "head_dim": 8,  # hidden_size / heads, as above
            "original_max_position_embeddings": 16,
            "rope_parameters": LONG_ROPE | {"original_max_position_embeddings": 16},
            "sliding_window": 30,
        },
        seed=9,
    ),
    "olmo2": Model(transformers.Olmo2Config, {"head_dim": 6}),
    "gpt-oss": Model(
        transformers.GptOssConfig,
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "intermediate_size": 12,
            "sliding_window": 8,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1000.0,
                "factor": 8.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "original_max_position_embeddings": 64,
                "truncate": False,
            },
        },
        seed=7,
    ),
    "gpt-oss-mxfp4": Model(
        transformers.GptOssConfig,
        {
            "hidden_size": 32,
            "num_local_experts": 3,
            "num_experts_per_tok": 2,
            "intermediate_size": 32,
            "sliding_window": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
        },
        mxfp4=True,
        seed=3,
    ),
}


def power_of_two(value: float) -> float:
    return 2.0 ** round(math.log2(value))


def random_weights(name: str, shape: tuple[int, ...], gemma: bool, rng: np.random.Generator) -> Any:
    levels = rng.integers(-7, 8, shape).astype(np.float32)  # a standard deviation of 4.3
    if name.endswith("sinks"):
        return levels / 4
    if name.endswith("bias"):
        return levels / 16
    # Gemma's embedding is also its output layer, and it is scaled up as an input. With a large
    # embedding, each token would be followed by itself.
    if gemma and name == "model.norm.weight":
        return levels / 2 + 24
    if len(shape) == 1:  # norms
        return levels / 16 + (0 if gemma else 1)
    if "embed_tokens" in name or "lm_head" in name:
        return levels / (128 if gemma else 4)
    fan_in = shape[-2] if len(shape) == 3 else shape[-1]  # approximate for stacks of experts
    return levels * power_of_two(1.6 / 4.3 / math.sqrt(fan_in))


def random_mxfp4(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """A gpt-oss tensor [experts, in, out] that is exact in MXFP4, with its blocks and scales."""
    experts, fan_in, rows = shape
    blocks = rng.integers(0, 256, (experts, rows, fan_in // 32, 16)).astype(np.uint8)
    scales = rng.integers(122, 125, (experts, rows, fan_in // 32)).astype(np.uint8)
    table = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    table = np.concatenate([table, -table])
    numbers = np.stack([table[blocks & 15], table[blocks >> 4]], -1).reshape(
        experts, rows, fan_in // 32, 32
    )
    values = numbers * np.exp2(scales.astype(np.float32) - 127)[..., None]
    return values.reshape(experts, rows, fan_in).transpose(0, 2, 1).copy(), blocks, scales


def fill(model: torch.nn.Module, spec: Model, seed: int) -> None:
    """Gives every parameter weights that depend only on the seed and the parameter's name."""
    gemma = model.config.model_type.startswith("gemma")
    spec.tensors = {}
    done = set()
    for name, parameter in model.named_parameters():
        if parameter.data_ptr() in done:
            continue
        done.add(parameter.data_ptr())
        rng = np.random.default_rng([seed, *name.encode()])
        shape = tuple(parameter.shape)
        if spec.mxfp4 and name.endswith(("gate_up_proj", "down_proj")):
            values, blocks, scales = random_mxfp4(shape, rng)
            spec.tensors[name + "_blocks"] = blocks
            spec.tensors[name + "_scales"] = scales
        else:
            values = random_weights(name, shape, gemma, rng)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values))


def half_kv(
    module: torch.nn.Module, query: Any, key: Any, value: Any, *rest: Any, **more: Any
) -> Any:
    """The model's own attention, with keys and values rounded to F16."""
    eager = sys.modules[type(module).__module__].eager_attention_forward
    return eager(module, query, key.half().float(), value.half().float(), *rest, **more)


transformers.AttentionInterface.register("half_kv", half_kv)
transformers.AttentionMaskInterface.register(
    "half_kv", transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS["eager"]
)


@torch.no_grad()
def run(model: torch.nn.Module, vocab: int, seed: int) -> dict[str, np.ndarray] | None:
    """The results, or None if this seed is unusable: two logits are too close, the text repeats
    itself, or rounding keys and values changes too much (a router may pick another expert)."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(0, vocab, PROMPT).astype(np.int32)
    tokens = prompt.tolist()
    gap = math.inf
    for _ in range(STEPS):
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
        best = torch.topk(logits[-1], 2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        if gap < LEAST_GAP:
            return None
        tokens.append(int(best.indices[0]))
    greedy = np.array(tokens[PROMPT:], np.int32)
    if len(set(greedy.tolist())) < LEAST_WORDS:
        return None
    exact = model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()
    model.set_attn_implementation("half_kv")
    out = model(torch.tensor([tokens]), use_cache=False, output_hidden_states=True)
    rounded, hidden = out.logits[0].numpy(), out.hidden_states[-1][0].numpy()
    model.set_attn_implementation("eager")
    if np.abs(exact - rounded).max() > LEAST_GAP:
        return None
    return {
        "prompt": prompt,
        "logits": exact[:PROMPT],
        "logits_half_kv": rounded[:PROMPT],
        "hidden_half_kv": hidden[:PROMPT],
        "greedy": greedy,
        "gap": np.array([gap], np.float32),
    }


def make(name: str, spec: Model) -> None:
    sizes = COMMON | spec.sizes
    config = spec.config(**sizes)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    for seed in range(spec.seed, 100):
        fill(model, spec, seed)
        golden = run(model, config.vocab_size, seed)
        if golden is not None:
            break
    else:
        raise SystemExit(f"{name}: no seed will do")
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(TYPES[spec.dtype]).save_pretrained(folder, max_shard_size=spec.shards)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if spec.mxfp4:
        use_blocks(folder, spec)
    write_gguf(folder, config, spec.dtype)
    metadata = {
        "seed": str(seed),
        "max_positions": str(spec.max_positions),
        "transformers": transformers.__version__,
    }
    save_file(golden, folder / "golden.safetensors", metadata)
    used = sum(file.stat().st_size for file in folder.iterdir())
    gap, words = golden["gap"][0], len(set(golden["greedy"].tolist()))
    largest = np.abs(golden["logits"]).max()
    cost = np.abs(golden["logits"] - golden["logits_half_kv"]).max()
    print(f"{name}: seed {seed}, gap {gap:.3f}, {words} words, {used} bytes")
    print(f"    logits up to {largest:.1f}; keys and values in F16 cost {cost:.4f}")


def use_blocks(folder: Path, spec: Model) -> None:
    """Replaces experts by their four-bit blocks, the form in which gpt-oss is published."""
    from safetensors.torch import load_file
    from safetensors.torch import save_file as save_torch

    path = folder / "model.safetensors"
    tensors = {
        name: tensor
        for name, tensor in load_file(path).items()
        if not name.endswith(("gate_up_proj", "down_proj"))
    }
    tensors |= {name: torch.from_numpy(array) for name, array in spec.tensors.items()}
    save_torch(tensors, path)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    torch.use_deterministic_algorithms(True)
    assert gguf.GGMLQuantizationType.MXFP4
    for name in sys.argv[1:] or MODELS:
        make(name, MODELS[name])


if __name__ == "__main__":
    main()
