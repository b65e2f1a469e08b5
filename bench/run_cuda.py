#!/usr/bin/env python3
"""Measures the CUDA device and the engine on it, and writes build/bench-cuda.json.

    bench/run_cuda.py [--quick] [--only device|peer|engine|loading …]

Parts: `device` is pie-gpu-bench, whose shares of the roof are defined in bench/gpu_bench.cc; `peer`
is Hugging Face transformers with CUDA graphs (bench/peers/hf_cuda.py), if a python3 here has torch
and transformers; `engine` is pie-gpu-engine-bench: the tax of inferlets, warm prefixes, and saved
contexts; `loading` opens a model of random weights in the shape of Llama 3.1 8B with eight layers
(bench/random_model.py). A part that cannot run here is named with the reason, and its figures are
left out. With --only, the figures of the other parts are kept from the file. docs/reference/gpu.md
explains all figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "build/bench-cuda.json"
GUEST = ROOT / "build/guests/bench-guest.wasm"
SHAPES = ("8b", "1b", "0.6b", "30b-a3b")
# Files here are in memory, so that saving is not limited by a disk.
MEMORY_FOLDER = Path("/dev/shm")
MODEL_BYTES = 5_000_000_000
SAVED_BYTES = 2 * 4_400_000_000  # a context of 32,768 tokens, and the one that replaces it

Figures = dict[str, float]
Runs = dict[str, dict[str, float]]


class Unavailable(Exception):
    """A part cannot run on this machine."""


def _run(command: list[str | Path], timeout: int = 600) -> dict[str, float]:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed")
    return json.loads(done.stdout)


def measure_device(runs: Runs, flags: list[str]) -> Figures:
    """The shares of the roof."""
    program = ROOT / "build/bin/pie-gpu-bench"
    for shape in SHAPES:
        runs[shape] = _run([program, "--shape", shape, *flags])
    runs["8b-fp8"] = _run([program, "--weights", "fp8", "--kv", "fp8", *flags])
    large, small, fp8, moe = runs["8b"], runs["0.6b"], runs["8b-fp8"], runs["30b-a3b"]
    return {
        "gpu_b1_roof_share": large["decode_1_roof_share"],
        "gpu_b64_roof_share": large["decode_64_roof_share"],
        "gpu_b256_roof_share": large["decode_256_roof_share"],
        "gpu_prefix64_roof_share": large["prefix_64_roof_share"],
        "gpu_prefill_share": large["prefill_2048_share_of_products"],
        "gpu_fp8_b1_roof_share": fp8["decode_1_roof_share"],
        "gpu_fp8_b64_roof_share": fp8["decode_64_roof_share"],
        "gpu_small_b1_roof_share": small["decode_1_roof_share"],
        "gpu_moe_b1_roof_share": moe["decode_1_roof_share"],
        "gpu_moe_b64_roof_share": moe["decode_64_roof_share"],
    }


def _python_with_torch() -> str:
    for name in ("python3", "/usr/bin/python3", "/opt/conda/bin/python3"):
        python = shutil.which(name)
        if python is None:
            continue
        command = [python, "-c", "import torch, transformers"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return python
    raise Unavailable("no python3 here has torch and transformers")


def measure_peer(runs: Runs, flags: list[str]) -> Figures:
    """Tokens a second of the 8B shape, divided by those of Hugging Face."""
    python = _python_with_torch()
    if "8b" not in runs:
        runs["8b"] = _run([ROOT / "build/bin/pie-gpu-bench", *flags])
    peer = _run([python, ROOT / "bench/peers/hf_cuda.py", "1", "64"])
    runs["hf"] = {f"decode_{batch}_tokens_per_s": speed for batch, speed in peer.items()}
    return {
        f"gpu_b{batch}_ratio_hf": runs["8b"][f"decode_{batch}_tokens_per_s"] / speed
        for batch, speed in peer.items()
    }


def measure_engine(runs: Runs, flags: list[str]) -> Figures:
    """The tax of inferlets, the first token of a warm prefix, and saved contexts."""
    if not GUEST.exists():
        raise Unavailable("bench-guest is not built: scripts/build_guests.py bench-guest")
    program = ROOT / "build/bin/pie-gpu-engine-bench"
    rounds = ["--rounds", "3"] if "--quick" in flags else []
    large = runs["tax-8b"] = _run([program, "tax", *rounds, GUEST])
    small = runs["tax-0.6b"] = _run(
        [program, "tax", "--shape", "0.6b", "--batches", "1", *rounds, GUEST]
    )
    figures = {
        "gpu_tax_chained_b1": large["tax_chained_b1"],
        "gpu_tax_chained_b64": large["tax_chained_b64"],
        "gpu_tax_stepped_b1": large["tax_stepped_b1"],
        "gpu_tax_stepped_b64": large["tax_stepped_b64"],
        "gpu_tax_small_chained_b1": small["tax_chained_b1"],
    }
    with _huge_pages(SAVED_BYTES) as huge:
        command = [program, "contexts", "--folder", _folder_for(SAVED_BYTES), GUEST]
        contexts = runs["contexts-8b"] = _run(command + (["--huge-folder", huge] if huge else []))
    keys = ("warm_prefix_ms", "save_gb_s", "open_gb_s", "huge_save_gb_s", "huge_open_gb_s")
    return figures | {f"gpu_{key}": contexts[key] for key in keys if key in contexts}


def measure_loading(runs: Runs, _flags: list[str]) -> Figures:
    """Opening a checkpoint whose files are in memory."""
    with tempfile.TemporaryDirectory(dir=_folder_for(MODEL_BYTES)) as folder:
        shape = ["--hidden", "4096", "--ffn", "14336", "--layers", "8", "--vocab", "128256"]
        writer = [sys.executable, ROOT / "bench/random_model.py", *shape, folder]
        subprocess.run(writer, check=True)
        loading = runs["loading"] = _run([ROOT / "build/bin/pie-gpu-bench", "--open", folder])
    return {"gpu_load_gb_s": loading["open_gb_s"], "gpu_load_s": loading["open_s"]}


def _folder_for(size: int) -> Path:
    """A folder for files of this size, in memory if there is room."""
    if MEMORY_FOLDER.is_dir() and shutil.disk_usage(MEMORY_FOLDER).free > size:
        return MEMORY_FOLDER
    print(f"{MEMORY_FOLDER} is too small: files of {size / 1e9:.0f} GB go to a disk", flush=True)
    return ROOT / "build"


@contextlib.contextmanager
def _huge_pages(size: int) -> Iterator[Path | None]:
    """A folder for files of this size in huge pages of memory, if this process may mount one."""
    with tempfile.TemporaryDirectory() as folder:
        # includes room for the files that are about to be removed
        options = f"huge=within_size,size={2 * size}"
        mount = ["mount", "-t", "tmpfs", "-o", options, "pie-bench", folder]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            print("no folder in huge pages: this process may mount none", flush=True)
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


PARTS = {
    "device": measure_device,
    "peer": measure_peer,
    "engine": measure_engine,
    "loading": measure_loading,
}


def main() -> None:
    """Measures the parts that were asked for, and writes the result."""
    parser = argparse.ArgumentParser(description="Measures the CUDA device.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    result: dict[str, object] = {}
    if set(options.only) != set(PARTS) and RESULT.exists():
        result = json.loads(RESULT.read_text())
    runs: Runs = result.pop("runs", {})  # type: ignore[assignment]
    for part, measure in PARTS.items():
        if part not in options.only:
            continue
        try:
            result |= measure(runs, ["--quick"] if options.quick else [])
        except Unavailable as reason:
            print(f"{part} was not measured: {reason}", flush=True)
    RESULT.write_text(json.dumps(result | {"runs": runs}, indent=2) + "\n")
    for name, value in result.items():
        print(f"{name:26} {value:.3f}")
    print(f"wrote {RESULT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
