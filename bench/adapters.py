"""Measures adapters on the CPU backend, with the default model and two threads.

Each ratio is the speed with adapters ÷ the speed without, measured in turn in one process. Adapters
have rank 16 on q_proj and v_proj, which is what the PEFT package changes by default; the figures
that end in `_all` have them on all seven projections of a layer. `lora_b1_ratio_llamacpp` is our
speed with one sequence under one adapter ÷ that of llama.cpp with such an adapter, in turn.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from pathlib import Path

from peers import gguf_adapter, llamacpp

from bakery import toolchain

ROOT = Path(__file__).resolve().parents[1]
OURS = ROOT / "build" / "bin" / "pie-adapter-bench"
MODEL = "models/smollm2-135m-instruct"  # in the cache

AIMS = {
    "lora16_b16_ratio": (">=", 0.85),
    "lora1_b16_ratio": (">=", 0.95),
    "lora_prefill_ratio": (">=", 0.9),
    "zo16_b16_ratio": (">=", 0.8),
    "lora_load_ms": ("<=", 50),
    "lora_b1_ratio_llamacpp": (">=", 1.8),
}
THREADS, RANK, CONTEXT, STEPS, ROUNDS = 2, 16, 32, 64, 3


def run_json(command: list[str | Path]) -> dict:
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def write_adapter(path: Path, shape: dict) -> None:
    """An adapter of q and v for llama.cpp, of the sizes that pie-adapter-bench prints."""
    matrices = {}
    for layer in range(shape["layers"]):
        matrices[f"blk.{layer}.attn_q.weight"] = (shape["hidden"], shape["q"])
        matrices[f"blk.{layer}.attn_v.weight"] = (shape["hidden"], shape["v"])
    gguf_adapter.write(path, "llama", RANK, matrices)


def compare(model: Path) -> dict[str, float]:
    """One sequence under one adapter, ours and llama.cpp's in turn."""
    driver = llamacpp.driver_if_available()
    if driver is None:
        return {}
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        adapter = Path(folder) / "adapter.gguf"
        write_adapter(adapter, run_json([OURS, model, "shape"]))
        peer = [driver, "--model", model, "--threads", THREADS, "--mode", "decode", "--batch", 1]
        peer += ["--context", CONTEXT, "--steps", STEPS, "--lora", adapter]
        for _ in range(ROUNDS):
            ours.append(run_json([OURS, model, "one"])["tps"])
            theirs.append(max(run_json([*peer, "--flash", f])["tps"] for f in ("auto", "off")))
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {
        "lora_b1_tps": statistics.median(ours),
        "lora_b1_tps_llamacpp": statistics.median(theirs),
        "lora_b1_ratio_llamacpp": statistics.median(ratios),
    }


def measure() -> dict[str, float]:
    model = next(toolchain.cache_dir(MODEL).glob("*.gguf"))
    return run_json([OURS, model]) | compare(model)
