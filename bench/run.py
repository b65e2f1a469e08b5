#!/usr/bin/env python3
"""Runs the benchmarks, writes build/bench.json (one flat object), shows each figure and its aim.

bench/run.py [engine] [tax] [kv] [serve] [cpu] [--rounds N]    all of them when none is named
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import cpu
import kv
import serve
import tax

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "bench.json"

# Key → what we aim for: a bound from above (<=) or below (>=).
AIMS = {
    "launch_p50_ms": ("<=", 0.25),
    "launches_per_s_64": (">=", 5000),
    "launches_per_s_256": (">=", 5000),
    "host_call_u32_ns": ("<=", 150),
    "host_call_logits_50000_us": ("<=", 20),
    "dummy_tps_1": (">=", 10_000),
    "dummy_tps_4": (">=", 30_000),
    "dummy_tps_16": (">=", 60_000),
    "step_overhead_b64_p50_us": ("<=", 40),
    "resume_p50_us": ("<=", 10),
    "concurrent_1000_failures": ("<=", 0),
}


def measure_engine() -> dict[str, float]:
    guests = ROOT / "build" / "guests"
    command = [
        ROOT / "build/bin/pie-bench",
        guests / "bench-empty.wasm",
        guests / "bench-guest.wasm",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def show(key: str, value: float) -> str:
    sign, aim = {**AIMS, **tax.AIMS, **kv.AIMS, **serve.AIMS, **cpu.AIMS}.get(key, ("", None))
    reached = aim is None or (value <= aim if sign == "<=" else value >= aim)
    note = "" if aim is None else f"  {'' if reached else 'not '}reached: {sign} {aim:g}"
    return f"{key:36} {value:14,.3f}{note}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the benchmarks.")
    every = ["engine", "tax", "kv", "serve", "cpu"]
    parser.add_argument("parts", nargs="*", choices=[*every, []], help="default: all")
    parser.add_argument("--rounds", type=int, default=cpu.ROUNDS, help="of turns with the peers")
    options = parser.parse_args()
    parts = options.parts or every
    results = {}
    if "engine" in parts:
        results |= measure_engine()
    if "tax" in parts:
        results |= tax.measure()
    if "kv" in parts:
        results |= kv.measure()
    if "serve" in parts:
        results |= serve.measure()
    if "cpu" in parts:
        results |= cpu.measure(max(1, options.rounds))
    # A part that was not run keeps its last figures.
    kept = json.loads(OUT.read_text()) if OUT.is_file() and len(parts) < 3 else {}
    OUT.write_text(json.dumps({**kept, **results}, indent=2) + "\n")
    for key, value in results.items():
        print(show(key, value))
    print(f"written to {OUT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
