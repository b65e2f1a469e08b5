#!/usr/bin/env python3
"""Writes models/NAME/adapter: a random LoRA adapter of some tiny models, with the results of peft.

    pip install torch==2.15.0 transformers==5.22.2 peft==0.21.2
    python tests/golden/make_adapters.py

Each folder is what peft's save_pretrained writes, with one more file: golden.safetensors has the
logits that transformers and peft give for the prompt of the model's own golden.safetensors, in
float32. src/backend/cpu/golden_test.cc runs the adapters on the Hugging Face and GGUF forms of the
models. The adapters differ in what their configurations use: a list or a pattern of modules,
patterns of ranks and alphas, rank-stabilised scales, and fused projections.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

MODELS = Path(__file__).parent / "models"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLP = ["gate_proj", "up_proj", "down_proj"]

ADAPTERS = {
    "llama": LoraConfig(
        r=4,
        lora_alpha=6,
        target_modules=ATTENTION + MLP,
        rank_pattern={"model.layers.0.self_attn.q_proj": 3, "down_proj": 2},
        alpha_pattern={r"layers\.1\..*v_proj": 12},
    ),
    "qwen2": LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], use_rslora=True),
    "gemma3": LoraConfig(r=5, lora_alpha=5, target_modules=r".*\.(q|k|o|gate|down)_proj"),
    "phi3": LoraConfig(
        r=4, lora_alpha=4, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
    ),
    "mixtral": LoraConfig(r=2, lora_alpha=4, target_modules=ATTENTION),
}


def main() -> None:
    for name, config in ADAPTERS.items():
        torch.manual_seed(len(name))
        folder = MODELS / name
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        config.task_type = "CAUSAL_LM"
        adapted = get_peft_model(model, config)
        with torch.no_grad():
            for key, weights in adapted.named_parameters():
                if "lora_" in key:  # exact in 16 bits
                    weights.copy_(torch.randint(-6, 7, weights.shape) / 64)
        prompt = load_file(folder / "golden.safetensors")["prompt"].long()
        with torch.no_grad():
            logits = adapted.eval()(prompt[None]).logits[0]
            with adapted.disable_adapter():
                plain = adapted(prompt[None]).logits[0]
        print(name, "moves logits by up to", float((logits - plain).abs().max()))
        out = folder / "adapter"
        adapted.save_pretrained(out)
        (out / "README.md").unlink(missing_ok=True)
        settings = json.loads((out / "adapter_config.json").read_text())
        settings["base_model_name_or_path"] = name  # and not where it is on this machine
        (out / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
        save_file({"logits": logits.contiguous()}, out / "golden.safetensors")


if __name__ == "__main__":
    main()
