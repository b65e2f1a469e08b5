"""What it costs that a program drives the model, and what it gains: `pie-tax-bench`.

A tax is an inferlet's time a token ÷ that of the bare loop, by turns in one process; of each, the
lowest decile of several short turns.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bakery import toolchain

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "bin" / "pie-tax-bench"
GUEST = ROOT / "build" / "guests" / "bench-guest.wasm"
MODEL = "models/smollm2-135m-instruct"  # in the cache
THREADS = 2
AGENTS = 32

# What README.md shows, in this order; the figures behind them follow in build/bench.json.
KEYS = (
    "tax_chained_b1",
    "tax_chained_b16",
    "tax_stepped_b1",
    "tax_stepped_b16",
    "agents32_speedup",
)
# Key → what we aim for: a bound from above (<=) or below (>=).
AIMS = {
    "tax_chained_b1": ("<=", 1.01),
    "tax_chained_b16": ("<=", 1.01),
    "tax_stepped_b1": ("<=", 1.03),
    "tax_stepped_b16": ("<=", 1.03),
}


def measure() -> dict[str, float]:
    model = next(toolchain.cache_dir(MODEL).glob("*.gguf"))
    command = [PROGRAM, "--model", model, "--threads", str(THREADS), GUEST]
    figures: dict[str, float] = {}
    for options in ([], ["--agents", str(AGENTS)]):
        done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True)
        figures |= json.loads(done.stdout)
    return {key: figures.pop(key) for key in KEYS} | figures
