#!/usr/bin/env python3
"""Runs the benchmarks, writes build/bench.json (one flat object), prints each figure and its aim.

    bench/run.py [PART…] [--rounds N]

The parts are engine, tax, kv, serve, adapters, structured, sdk, cpu and openai; without arguments
all of them are measured. A part that is not measured keeps its last figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import adapters
import cpu
import kv
import openai_api
import sdk
import serve
import structured
import tax

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "bench.json"

PARTS = ("engine", "tax", "kv", "serve", "adapters", "structured", "sdk", "cpu", "openai")

# Key → the aim: an upper bound (<=) or a lower bound (>=).
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
    parts = (tax, kv, serve, adapters, structured, sdk, cpu, openai_api)
    aims = AIMS | {key: aim for part in parts for key, aim in part.AIMS.items()}
    sign, aim = aims.get(key, ("", None))
    reached = aim is None or (value <= aim if sign == "<=" else value >= aim)
    note = "" if aim is None else f"  {'' if reached else 'not '}reached: {sign} {aim:g}"
    return f"{key:36} {value:14,.3f}{note}"


def measure(parts: Collection[str], rounds: int) -> dict[str, float]:
    """The figures of some parts, in the order of PARTS."""
    measures = {
        "engine": measure_engine,
        "tax": tax.measure,
        "kv": kv.measure,
        "serve": serve.measure,
        "adapters": adapters.measure,
        "structured": structured.measure,
        "sdk": sdk.measure,
        "cpu": lambda: cpu.measure(max(1, rounds)),
        "openai": lambda: openai_api.measure(min(max(1, rounds), openai_api.ROUNDS)),
    }
    results: dict[str, float] = {}
    for part in PARTS:
        if part in parts:
            results |= measures[part]()
    return results


def write(results: dict[str, float], parts: Collection[str], out: Path = OUT) -> None:
    """Writes the figures. Parts that were not measured keep their last figures. After a run of all
    parts, figures that no longer exist are gone."""
    complete = set(parts) == set(PARTS)
    kept = json.loads(out.read_text()) if out.is_file() and not complete else {}
    out.write_text(json.dumps({**kept, **results}, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the benchmarks.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument(
        "--rounds", type=int, default=cpu.ROUNDS, help="how often the peers are measured in turn"
    )
    options = parser.parse_args()
    parts = options.parts or PARTS
    results = measure(parts, options.rounds)
    write(results, parts)
    for key, value in results.items():
        print(show(key, value))
    print(f"written to {OUT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
