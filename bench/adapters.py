"""Measures adapters on the CPU backend, with the default model and two threads.

Each ratio is the speed with adapters ÷ the speed without, measured in turn in one process. Adapters
have rank 16 on q_proj and v_proj, which is what the PEFT package changes by default; the figures
that end in `_all` have them on all seven projections of a layer.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

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
}


def measure() -> dict[str, float]:
    model = next((toolchain.cache_dir() / MODEL).glob("*.gguf"))
    done = subprocess.run([OURS, model], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
