"""Measures what contexts cost: forks on the dummy model, snapshots on the default model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cpu

PROGRAM = Path(__file__).resolve().parents[1] / "build/bin/pie-kv-bench"

KEYS = (
    "fork_p50_us",
    "fork_bytes",
    "snapshot_compute_2000_ms",
    "snapshot_save_2000_ms",
    "snapshot_open_2000_ms",
    "snapshot_open_speedup_2000",
)
AIMS = {
    "fork_p50_us": ("<=", 2),
    "snapshot_open_speedup_2000": (">=", 50),
}


def measure() -> dict[str, float]:
    """All figures. Without the default model, only those of forks."""
    model = cpu.find_model()
    done = subprocess.run(
        [PROGRAM, *([model] if model else [])], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(done.returncode)
    return json.loads(done.stdout)
