"""Measures the CPU backend and its peers in turn, on the default model with two threads.

Each round measures ours, then theirs. A ratio is the median of the rounds' ratios, ours ÷ theirs,
so that a machine that slows down for a while slows both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from peers import llamacpp, openvino_peer

from bakery import toolchain

ROOT = Path(__file__).resolve().parents[1]
OURS = ROOT / "build" / "bin" / "pie-cpu-bench"
MODEL = "models/smollm2-135m-instruct"  # in the cache
THREADS = 2
ROUNDS = 5
REPEATS = 2  # runs of a task in each round

# The figures that README.md shows, in this order. build/bench.json has more.
KEYS = (
    "cpu_prefill512_ratio_openvino",
    "cpu_prefill512_ratio_llamacpp",
    "cpu_decode_b1_ratio_llamacpp",
    "cpu_decode_b8_ratio_openvino",
    "cpu_decode_b16_ratio_openvino",
    "cpu_decode_b32_ratio_openvino",
    "cpu_shared_prefix16_ratio_llamacpp",
    "cpu_rss_ratio_llamacpp",
    "cpu_load_ms",
    "cpu_b1_bandwidth_share",
    "cpu_prefill_peak_share",
)
# Key → the aim: an upper bound (<=) or a lower bound (>=).
AIMS = {
    "cpu_prefill512_ratio_openvino": (">=", 1.1),
    "cpu_decode_b1_ratio_llamacpp": (">=", 1.8),
    "cpu_decode_b8_ratio_openvino": (">=", 1.2),
    "cpu_decode_b16_ratio_openvino": (">=", 1.2),
    "cpu_decode_b32_ratio_openvino": (">=", 1.2),
    "cpu_shared_prefix16_ratio_llamacpp": (">=", 4),
    "cpu_rss_ratio_llamacpp": ("<=", 1.2),
    "cpu_b1_bandwidth_share": (">=", 0.55),
    "cpu_prefill_peak_share": (">=", 0.45),
}


@dataclass(frozen=True)
class Task:
    """Work that every engine can do. `peers` are the engines that ours is compared with."""

    name: str
    mode: str
    length: int = 0  # tokens of a prefill
    batch: int = 1
    context: int = 32
    own: int = 0  # tokens of each sequence after a shared context
    steps: int = 32
    peers: tuple[str, ...] = ("llamacpp", "openvino")


TASKS = (
    Task("prefill512", "prefill", length=512),
    Task("decode_b1", "decode", steps=64),
    Task("decode_b8", "decode", batch=8),
    Task("decode_b16", "decode", batch=16, steps=24),
    Task("decode_b32", "decode", batch=32, steps=16),
    Task("shared_prefix16", "shared", batch=16, context=512, own=16, peers=("llamacpp",)),
)


def run_json(command: list[str | Path]) -> dict[str, float]:
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


class Ours:
    def __init__(self, model: Path) -> None:
        self._model = model

    def measure(self, task: Task) -> dict[str, float]:
        command = [OURS, task.mode, "--model", self._model, "--threads", THREADS]
        command += ["--repeats", REPEATS]
        if task.mode == "prefill":
            command += ["--tokens", task.length]
        else:
            command += ["--batch", task.batch, "--context", task.context, "--steps", task.steps]
        if task.mode == "shared":
            command += ["--own", task.own]
        result = run_json(command)
        return {**result, "tps": result["tokens_per_s"], "rss_mb": result["peak_rss_mb"]}


class LlamaCpp:
    """llama.cpp with or without flash attention, whichever is faster on this machine."""

    def __init__(self, model: Path) -> None:
        self._driver = llamacpp.driver()
        self._model = model
        self._flash: dict[str, str] = {}  # task → the faster choice in the first round

    def measure(self, task: Task) -> dict[str, float]:
        if task.name not in self._flash:
            tried = {flash: self._run(task, flash) for flash in ("auto", "off")}
            self._flash[task.name] = max(tried, key=lambda flash: tried[flash]["tps"])
            return tried[self._flash[task.name]]
        return self._run(task, self._flash[task.name])

    def _run(self, task: Task, flash: str) -> dict[str, float]:
        command = [self._driver, "--model", self._model, "--threads", THREADS]
        command += ["--mode", task.mode, "--reps", REPEATS, "--flash", flash]
        command += ["--length", task.length, "--batch", task.batch, "--context", task.context]
        command += ["--own", task.own, "--steps", task.steps]
        # Sequences can share a prefix only in a common buffer. Otherwise separate ones are faster.
        command += ["--unified", int(task.mode == "shared")]
        return run_json(command)


class OpenVino:
    def __init__(self, model: Path) -> None:
        command = [openvino_peer.python(), openvino_peer.DRIVER, model, str(THREADS)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.load_ms = self._answer()["load_ms"]

    def measure(self, task: Task) -> dict[str, float]:
        numbers = (
            (task.length,) if task.mode == "prefill" else (task.batch, task.context, task.steps)
        )
        results = []
        for _ in range(REPEATS):
            print(task.mode, *numbers, file=self._process.stdin, flush=True)
            results.append(self._answer())
        return max(results, key=lambda result: result["tps"])

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise llamacpp.Unavailable("its driver ended; its messages are above")
        return json.loads(line)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def find_model() -> Path | None:
    return next(iter(sorted(toolchain.cache_dir(MODEL).glob("*.gguf"))), None)


def find_peers(model: Path) -> dict[str, LlamaCpp | OpenVino]:
    found: dict[str, LlamaCpp | OpenVino] = {}
    kinds: dict[str, Callable] = {"llamacpp": LlamaCpp, "openvino": OpenVino}
    for name, kind in kinds.items():
        try:
            found[name] = kind(model)
        except llamacpp.Unavailable as reason:
            print(f"peers: {name} is not available and not compared: {reason}", flush=True)
    return found


Samples = dict[str, list[float]]


def take_rounds(ours: Ours, peers: dict, rounds: int, samples: Samples) -> None:
    for number in range(rounds):
        print(f"cpu: round {number + 1} of {rounds}", flush=True)
        limits = run_json([OURS, "limits", "--threads", THREADS])
        samples["read_gb_per_s"].append(limits["read_gb_per_s"])
        samples["int8_gop_per_s"].append(limits["int8_gop_per_s"])
        for task in TASKS:
            mine = ours.measure(task)
            samples[f"{task.name}_tps"].append(mine["tps"])
            others = measure_peers(peers, task, samples)
            for name, other in others.items():
                samples[f"{task.name}_tps_{name}"].append(other["tps"])
            if task.name == "decode_b1":
                note_memory_and_load(mine, others.get("llamacpp"), samples)
                samples["b1_gb_per_s"].append(mine["tps"] * mine["weight_bytes"] / 1e9)
            if task.name == "prefill512":
                samples["prefill512_gop_per_s"].append(
                    mine["tps"] * 2 * mine["layer_weights"] / 1e9
                )


def measure_peers(peers: dict, task: Task, samples: Samples) -> dict[str, dict[str, float]]:
    """Each peer's figures. A peer that fails is left out from then on, with all its figures."""
    results = {}
    for name in task.peers:
        try:
            if name in peers:
                results[name] = peers[name].measure(task)
        except (llamacpp.Unavailable, subprocess.CalledProcessError) as reason:
            print(f"peers: {name} failed and is not compared: {reason}", flush=True)
            del peers[name]
            for key in [key for key in samples if key.endswith(name)]:
                del samples[key]
    return results


def note_memory_and_load(mine: dict, llama: dict | None, samples: Samples) -> None:
    samples["rss_mb"].append(mine["rss_mb"])
    samples["load_ms"].append(mine["load_ms"])
    if llama:
        samples["rss_mb_llamacpp"].append(llama["rss_mb"])
        samples["load_ms_llamacpp"].append(llama["load_ms"])


def summarise(samples: Samples) -> dict[str, float]:
    def ratio(name: str, peer: str) -> float | None:
        if not samples.get(f"{name}_{peer}"):
            return None
        pairs = zip(samples[name], samples[f"{name}_{peer}"], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)

    medians = {f"cpu_{name}": statistics.median(values) for name, values in samples.items()}
    # A limit is the largest figure of all rounds.
    for share, of, limit in (
        ("cpu_b1_bandwidth_share", "cpu_b1_gb_per_s", "read_gb_per_s"),
        ("cpu_prefill_peak_share", "cpu_prefill512_gop_per_s", "int8_gop_per_s"),
    ):
        medians[f"cpu_{limit}"] = max(samples[limit])
        if medians[f"cpu_{limit}"] > 0:
            medians[share] = medians[of] / medians[f"cpu_{limit}"]
    results = {}
    for key in KEYS:
        name, is_ratio, peer = key.removeprefix("cpu_").partition("_ratio_")
        if is_ratio:
            results[key] = ratio("rss_mb" if name == "rss" else f"{name}_tps", peer)
        else:
            results[key] = medians.get(key)
    return {key: value for key, value in (results | medians).items() if value is not None}


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    """All figures, by key. Those of a peer that is not available are missing."""
    model = find_model()
    if model is None:
        print("cpu: the default model is missing; run: make setup", flush=True)
        return {}
    peers = find_peers(model)
    samples: Samples = defaultdict(list)
    try:
        take_rounds(Ours(model), peers, rounds, samples)
    finally:
        if isinstance(peer := peers.get("openvino"), OpenVino):
            peer.close()
    return summarise(samples)
