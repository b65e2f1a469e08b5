#!/usr/bin/env python3
"""Writes models/NAME/adapter…: random LoRA adapters of some tiny models, with the results of peft.

    pip install torch==2.15.0 transformers==5.22.2 peft==0.21.2
    python tests/golden/make_adapters.py

Each folder is what peft's save_pretrained writes, with one more file: golden.safetensors has the
logits that transformers and peft give for the prompt of the model's own golden.safetensors, in
float32. src/backend/cpu/golden_test.cc runs the adapters on the Hugging Face and GGUF forms of the
models. The adapters differ in what their configurations use: a list or a pattern of modules,
patterns of ranks and alphas, rank-stabilised scales, and fused projections. Those in adapter-ends
change the embedding and the head. Those in adapter-experts change experts that are stacked in one
parameter, as transformers 5 has them; those in adapter-modules have a module for each expert, as
transformers 4 had them, and peft converts them when it loads them.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

MODELS = Path(__file__).parent / "models"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]

STACKED = ["experts.gate_up_proj", "experts.down_proj"]

ADAPTERS = {
    ("llama", "adapter"): LoraConfig(
        r=4,
        lora_alpha=6,
        target_modules=ATTENTION + MLP,
        rank_pattern={"model.layers.0.self_attn.q_proj": 3, "down_proj": 2},
        alpha_pattern={r"layers\.1\..*v_proj": 12},
    ),
    ("qwen2", "adapter"): LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], use_rslora=True
    ),
    ("gemma3", "adapter"): LoraConfig(
        r=5, lora_alpha=5, target_modules=r".*\.(q|k|o|gate|down)_proj"
    ),
    ("phi3", "adapter"): LoraConfig(
        r=4, lora_alpha=4, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
    ),
    ("mixtral", "adapter"): LoraConfig(r=2, lora_alpha=4, target_modules=ATTENTION),
    ("llama", "adapter-ends"): LoraConfig(
        r=3, lora_alpha=6, target_modules=["embed_tokens", "lm_head", "q_proj"]
    ),
    ("gemma3", "adapter-ends"): LoraConfig(
        r=3,
        lora_alpha=3,
        target_modules=["embed_tokens", "lm_head"],
        rank_pattern={"lm_head": 2},
    ),
    ("qwen3moe", "adapter-experts"): LoraConfig(
        r=2, lora_alpha=12, target_modules=["q_proj", "gate_proj", "up_proj", "down_proj"]
    ),
    ("mixtral", "adapter-experts"): LoraConfig(
        r=2, lora_alpha=24, target_modules=[], target_parameters=STACKED[1:]
    ),
    ("gpt-oss", "adapter-experts"): LoraConfig(
        r=2, lora_alpha=12, target_modules=["v_proj"], target_parameters=STACKED
    ),
}

# The names of gate, up and down of an expert that is a module.
MODULES = {
    "qwen3moe": ("mlp.experts.{}.", MLP),
    "mixtral": ("block_sparse_moe.experts.{}.", ["w1", "w3", "w2"]),
}


def random_weights(*shape: int) -> torch.Tensor:
    return torch.randint(-6, 7, shape) / 64  # exact in 16 bits


def write_modules(name: str, model: torch.nn.Module, out: Path) -> None:
    """An adapter that has a module for each expert."""
    prefix, names = MODULES[name]
    config = LoraConfig(r=2, lora_alpha=4, target_modules=["k_proj", *names], task_type="CAUSAL_LM")
    tensors = {}
    for index, layer in enumerate(model.model.layers):
        experts, hidden, ffn = layer.mlp.experts.down_proj.shape
        sizes = {"self_attn.k_proj.": (hidden, layer.self_attn.k_proj.out_features)}
        for expert in range(experts):
            for part in names:
                down = part == names[2]
                sizes[f"{prefix.format(expert)}{part}."] = (ffn, hidden) if down else (hidden, ffn)
        for module, (fan_in, fan_out) in sizes.items():
            key = f"base_model.model.model.layers.{index}.{module}"
            tensors[f"{key}lora_A.weight"] = random_weights(2, fan_in)
            tensors[f"{key}lora_B.weight"] = random_weights(fan_out, 2)
    out.mkdir(exist_ok=True)
    config.save_pretrained(out)
    save_file(tensors, out / "adapter_model.safetensors")


def make(name: str, folder: str, config: LoraConfig | None) -> None:
    base = MODELS / name
    out = base / folder
    torch.manual_seed(len(name) + len(folder) - len("adapter"))
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    if config is None:
        write_modules(name, model, out)
        adapted = PeftModel.from_pretrained(model, out)
    else:
        config.task_type = "CAUSAL_LM"
        adapted = get_peft_model(model, config)
        with torch.no_grad():
            for key, weights in adapted.named_parameters():
                if "lora_" in key:
                    weights.copy_(random_weights(*weights.shape))
    prompt = load_file(base / "golden.safetensors")["prompt"].long()
    with torch.no_grad():
        logits = adapted.eval()(prompt[None]).logits[0]
        with adapted.disable_adapter():
            plain = adapted(prompt[None]).logits[0]
    print(name, folder, "moves logits by up to", float((logits - plain).abs().max()))
    if config is not None:
        adapted.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    settings = json.loads((out / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = name  # and not where it is on this machine
    for field in ("target_modules", "target_parameters"):  # sets, whose order changes
        if isinstance(settings.get(field), list):
            settings[field].sort()
    (out / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    save_file({"logits": logits.contiguous()}, out / "golden.safetensors")


def main() -> None:
    for (name, folder), config in ADAPTERS.items():
        make(name, folder, config)
    for name in MODULES:
        make(name, "adapter-modules", None)


if __name__ == "__main__":
    main()
