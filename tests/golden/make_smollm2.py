#!/usr/bin/env python3
"""Writes smollm2.json and smollm2.bin: SmolLM2's results in float32, by Hugging Face transformers.

    pip install torch==2.15.0 transformers==5.22.2 gguf==0.19.0 accelerate
    python tests/golden/make_smollm2.py MODEL.gguf
    PYTHONPATH=bakery/src python tests/golden/make_smollm2.py MODEL.gguf --add-llamacpp

transformers reads the same GGUF file as we do, dequantises it to float32 and computes in float32
throughout, so what our backend says differently is what quantised activations and F16 keys and
values cost. smollm2.json has for each prompt its ids, the greedy continuation and the margin
between the best two logits at each step. smollm2.bin has whole distributions at some of these
places: [places, vocab] of uint16, -log(p) in units of 1/512. llama.cpp's greedy continuations
(built by bench/peers/llamacpp.py) stand beside them as a second opinion, with its own distance.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOKENS = HERE / "smollm2.json"
DISTRIBUTIONS = HERE / "smollm2.bin"

STEPS = 64
UNIT = 512  # log-probabilities are stored in 1/512 nats
LATE = 40  # the step at which the first LATE_PROMPTS are compared again
LATE_PROMPTS = 8
CHAT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
    "<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
)
PROMPTS = [
    CHAT.format("What is gravity?"),
    CHAT.format("Write a haiku about a loaf of bread."),
    CHAT.format("Give me three reasons to walk to work instead of driving."),
    CHAT.format("Explain to a child why the sky is blue, in two sentences."),
    CHAT.format("Translate 'good morning' into French, Spanish and German."),
    CHAT.format("A train leaves at 9:15 and arrives at 11:40. How long does the ride take?"),
    CHAT.format("Write a Python function that returns the n-th Fibonacci number."),
    CHAT.format("Correct the grammar: 'She don't likes apples, because they is sour.'"),
    CHAT.format("List the planets of the solar system, from the sun outwards."),
    CHAT.format("Summarise: The bakery opened in 1921. It survived a war, two floods and a fire."),
    "The capital of France is",
    "Once upon a time, in a small village by the sea, there lived",
    "def quicksort(items):\n    if len(items) <= 1:\n        return items\n    pivot =",
    "The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the",
    "In 1969, the first human beings walked on the moon. Since then,",
    "Ingredients:\n- 500 g flour\n- 350 ml water\n- 10 g salt\n- 5 g yeast\n\nMethod:\n1.",
    "#include <stdio.h>\n\nint main(void) {\n",
    "1, 1, 2, 3, 5, 8, 13,",
    "Dear Sir or Madam,\n\nI am writing to",
    "Photosynthesis is the process by which plants turn light, water and carbon dioxide into sugar"
    " and oxygen. It takes place in the chloroplasts, where chlorophyll absorbs mostly red and blue"
    " light. The light reactions split water and make ATP and NADPH; the Calvin cycle then uses"
    " these to fix carbon. Without it, there would be",
]


def greedy(model, ids: list[int]) -> tuple[list[int], list[float], np.ndarray]:
    """Tokens, margins and log-probabilities [STEPS, vocab]."""
    import torch

    tokens, margins, rows = [], [], []
    cache, new = None, torch.tensor([ids])
    for _ in range(STEPS):
        out = model(new, past_key_values=cache, use_cache=True)
        cache, logits = out.past_key_values, out.logits[0, -1].double()
        best = torch.topk(logits, 2)
        tokens.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 5))
        rows.append(torch.log_softmax(logits, -1).numpy())
        new = torch.tensor([[tokens[-1]]])
    return tokens, margins, np.array(rows)


def make_reference(path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    prompts, places, rows = [], [], []
    for text in PROMPTS:
        ids = tokenizer(text, add_special_tokens=False).input_ids
        with torch.no_grad():
            tokens, margins, logprobs = greedy(model, ids)
        number = len(prompts)
        for step in (0, LATE) if number < LATE_PROMPTS else (0,):
            places.append({"prompt": number, "step": step})
            rows.append(logprobs[step])
        prompts.append({"text": text, "ids": ids, "greedy": tokens, "margins": margins})
        print(f"{number:2} {tokenizer.decode(tokens)!r}", flush=True)
    codes = np.minimum(np.round(-np.array(rows) * UNIT), 65535).astype("<u2")
    DISTRIBUTIONS.write_bytes(codes.tobytes())
    write(
        {
            "made_by": {name: version(name) for name in ("torch", "transformers", "gguf")},
            "model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "vocab": codes.shape[1],
            "unit": UNIT,
            "places": places,
            "prompts": prompts,
        }
    )


def add_llamacpp(path: Path) -> None:
    sys.path.insert(0, str(HERE.parents[1] / "bench" / "peers"))
    import llamacpp

    def ask(mode: str, prompts: list[list[int]]) -> bytes:
        lines = "".join(" ".join(map(str, ids)) + "\n" for ids in prompts)
        command = [llamacpp.driver(), "--model", path, "--mode", mode, "--threads", "1"]
        command += ["--steps", str(STEPS)]
        return subprocess.run(
            command, input=lines.encode(), stdout=subprocess.PIPE, check=True
        ).stdout

    result = json.loads(TOKENS.read_text())
    prompts = result["prompts"]
    lines = ask("greedy", [prompt["ids"] for prompt in prompts]).splitlines()
    for prompt, line in zip(prompts, lines, strict=True):
        prompt["llamacpp"] = json.loads(line)["tokens"]
    before = [
        prompts[place["prompt"]]["ids"] + prompts[place["prompt"]]["greedy"][: place["step"]]
        for place in result["places"]
    ]
    logits = np.frombuffer(ask("logits", before), np.float32).reshape(len(before), -1)
    codes = np.fromfile(DISTRIBUTIONS, "<u2").reshape(len(before), -1)
    apart = divergence(codes / -float(UNIT), logits.astype(np.float64))
    result["kl_of_llamacpp"] = {
        "mean": round(float(apart.mean()), 7),
        "max": round(float(apart.max()), 7),
    }
    print(result["kl_of_llamacpp"])
    write(result)


def divergence(reference: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """KL(reference ‖ other), of log-probabilities and logits [places, vocab]."""
    other = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return (np.exp(reference) * (reference - other)).sum(axis=1)


def write(result: dict) -> None:
    """JSON with a line for each list of numbers."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([^\[\]{}\"]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    TOKENS.write_text(text + "\n")


def main() -> None:
    path = Path(sys.argv[1])
    if sys.argv[2:] == ["--add-llamacpp"]:
        add_llamacpp(path)
    else:
        make_reference(path)


if __name__ == "__main__":
    main()
