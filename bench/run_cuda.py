#!/usr/bin/env python3
"""Measures the CUDA device with pie-gpu-bench and writes build/bench-cuda.json.

    bench/run_cuda.py [--quick]

The shares of the roof are defined in bench/gpu_bench.cc and docs/reference/gpu.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ("8b", "1b", "0.6b")


def measure(shape: str, flags: list[str]) -> dict[str, object]:
    """The figures of one shape."""
    command = [str(ROOT / "build/bin/pie-gpu-bench"), "--shape", shape, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"pie-gpu-bench --shape {shape} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> None:
    """Measures all shapes and writes the result."""
    runs = {shape: measure(shape, sys.argv[1:]) for shape in SHAPES}
    runs["8b-fp8"] = measure("8b", ["--weights", "fp8", "--kv", "fp8", *sys.argv[1:]])
    large, small, fp8 = runs["8b"], runs["0.6b"], runs["8b-fp8"]
    result = {
        "gpu_b1_roof_share": large["decode_1_roof_share"],
        "gpu_b64_roof_share": large["decode_64_roof_share"],
        "gpu_b256_roof_share": large["decode_256_roof_share"],
        "gpu_prefix64_roof_share": large["prefix_64_roof_share"],
        "gpu_prefill_share": large["prefill_2048_share_of_products"],
        "gpu_fp8_b1_roof_share": fp8["decode_1_roof_share"],
        "gpu_fp8_b64_roof_share": fp8["decode_64_roof_share"],
        "gpu_small_b1_roof_share": small["decode_1_roof_share"],
        "runs": runs,
    }
    path = ROOT / "build/bench-cuda.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    for name, value in result.items():
        if name != "runs":
            print(f"{name:26} {value:.3f}")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
