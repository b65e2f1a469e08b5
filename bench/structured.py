"""Measures what grammars and drafts cost and gain, with `pie-structured-bench`.

The figures of chains are ratios of times per token of two kinds of generation, measured in turn in
one process; the median of the rounds counts. Masks are compared with those of Python packages, and
JSON-constrained generation with llama.cpp's, all on the default model.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peers import grammars_peer, llamacpp

from bakery import toolchain

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "bin" / "pie-structured-bench"
GRAMMAR = Path(__file__).parent / "peers" / "records.gbnf"  # the schema of our `json`
MODEL = "models/smollm2-135m-instruct"  # in the cache
THREADS = 2
ROUNDS = 5
STEPS = 64

# Key → the aim: an upper bound (<=) or a lower bound (>=).
AIMS = {
    "mask_p99_ratio_best": ("<=", 1.0),
    "json_tpot_ratio_b1": ("<=", 1.02),
    "json_tpot_ratio_b16": ("<=", 1.02),
    "json_jump_ratio": ("<=", 0.9),
    "json_ratio_llamacpp": (">=", 2.5),
    "spec_copy_b1": (">=", 1.8),
    "spec_copy_b8": (">=", 1.2),
    "spec_adverse_b1": (">=", 0.98),
}


def measure() -> dict[str, float]:
    model = next(toolchain.cache_dir(MODEL).glob("*.gguf"))
    return ours(model, "chains") | masks(model) | json_with_peer(model)


def ours(model: Path, what: str, *options: str) -> Any:
    command = [PROGRAM, "--model", model, "--threads", str(THREADS), *options, what]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def masks(model: Path) -> dict[str, float]:
    """The times of masks, ours and those of the packages, along the same tokens."""
    measured = ours(model, "masks")
    cases = measured["cases"]
    try:
        peers = grammars_peer.measure(measured)
    except llamacpp.Unavailable as reason:
        print(f"peers: xgrammar and llguidance are not compared: {reason}", flush=True)
        peers = {}
    return summarise(cases, peers)


def summarise(cases: list[dict], peers: dict[str, list[dict]]) -> dict[str, float]:
    """Medians and 99th percentiles over the masks of all grammars that all packages accept. The
    time of a mask is the median of its walks; `_first` is that of the first walk. From the second
    walk on, our masks are those that were kept for the same places of the grammar."""
    for name, results in peers.items():
        for case, result in zip(cases, results, strict=True):
            if "error" in result:
                print(f"peers: {name} does not do '{case['name']}': {result['error']}", flush=True)
    every = {"": cases} | {f"_{name}": results for name, results in peers.items()}
    compared = [
        number
        for number in range(len(cases))
        if all("error" not in results[number] for results in every.values())
    ]
    figures: dict[str, float] = {}
    for name, results in every.items():
        chosen = [(len(cases[i]["tokens"]), results[i]) for i in compared]
        times = [time for count, case in chosen for time in by_mask(case["times_us"], count)]
        first = [time for count, case in chosen for time in case["times_us"][:count]]
        figures[f"mask_p50_us{name}"] = statistics.median(times)
        figures[f"mask_p99_us{name}"] = percentile(times, 0.99)
        figures[f"mask_first_p99_us{name}"] = percentile(first, 0.99)
        for part in ("compile_ms", "warm_us"):
            figures[f"grammar_{part}{name}"] = statistics.median(c[part] for _, c in chosen)
    if peers:
        best = min(figures[f"mask_p99_us_{name}"] for name in peers)
        figures = {"mask_p99_ratio_best": figures["mask_p99_us"] / best} | figures
    return figures


def by_mask(times: Sequence[float], count: int) -> list[float]:
    """Times of walks one after the other → the median time of each of their `count` masks."""
    return [statistics.median(times[i::count]) for i in range(count)]


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def json_with_peer(model: Path) -> dict[str, float]:
    """Tokens a second under a JSON schema, ours ÷ llama.cpp's, measured in turn."""
    driver = llamacpp.driver_if_available()
    if driver is None:
        return {}
    ratios, mine, theirs = [], [], []
    for _ in range(ROUNDS):
        result = ours(model, "json", "--rounds", "2")
        command = [driver, "--model", model, "--mode", "grammar", "--grammar", GRAMMAR]
        command += ["--threads", str(THREADS), "--steps", str(STEPS), "--reps", "2"]
        prompt = " ".join(map(str, result["prompt"]))
        done = subprocess.run(command, input=prompt, stdout=subprocess.PIPE, text=True, check=True)
        mine.append(result["tps"])
        theirs.append(json.loads(done.stdout)["tps"])
        ratios.append(mine[-1] / theirs[-1])
    return {
        "json_ratio_llamacpp": statistics.median(ratios),
        "json_tps": statistics.median(mine),
        "json_tps_llamacpp": statistics.median(theirs),
    }
