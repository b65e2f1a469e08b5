#!/usr/bin/env python3
"""Runs the benchmarks, writes build/bench.json (one flat object), shows each figure and its aim."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

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
}


def main() -> int:
    guests = ROOT / "build" / "guests"
    command = [
        ROOT / "build/bin/pie-bench",
        guests / "bench-empty.wasm",
        guests / "bench-guest.wasm",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return done.returncode
    results = json.loads(done.stdout)
    out = ROOT / "build" / "bench.json"
    out.write_text(json.dumps(results, indent=2) + "\n")
    for key, value in results.items():
        sign, aim = AIMS.get(key, ("", None))
        reached = aim is None or (value <= aim if sign == "<=" else value >= aim)
        note = "" if aim is None else f"  {'' if reached else 'not '}reached: {sign} {aim:g}"
        print(f"{key:32} {value:14,.3f}{note}")
    print(f"written to {out.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
