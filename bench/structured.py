"""Measures what grammars and drafts cost and gain, with `pie-structured-bench`.

Every figure is a ratio of times per token of two kinds of generation, measured in turn in one
process; the median of the rounds counts.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bakery import toolchain

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "bin" / "pie-structured-bench"
MODEL = "models/smollm2-135m-instruct"  # in the cache
THREADS = 2

# Key → the aim: an upper bound (<=) or a lower bound (>=).
AIMS = {
    "json_tpot_ratio_b1": ("<=", 1.02),
    "json_tpot_ratio_b16": ("<=", 1.02),
    "json_jump_ratio": ("<=", 0.9),
    "spec_copy_b1": (">=", 1.8),
    "spec_copy_b8": (">=", 1.2),
    "spec_adverse_b1": (">=", 0.98),
}


def measure() -> dict[str, float]:
    model = next(toolchain.cache_dir(MODEL).glob("*.gguf"))
    command = [PROGRAM, "--model", model, "--threads", str(THREADS), "chains"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)
