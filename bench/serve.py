#!/usr/bin/env python3
"""Measures `pie serve`: starts it on the dummy model and on the default model, and drives it with
pie-serve-bench, whose clients cost little themselves."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIE = ROOT / "build" / "bin" / "pie"
BENCH = ROOT / "build" / "bin" / "pie-serve-bench"
GUESTS = {
    "bench-empty": ROOT / "bench/empty/Pie.toml",
    "bench-hello": ROOT / "bench/hello/Pie.toml",
    "serve-session-rust": ROOT / "tests/serve/session/rust/Pie.toml",
    "text-completion-rust": ROOT / "inferlets/text-completion/rust/Pie.toml",
}

# The figures that README.md shows, in this order.
KEYS = (
    "ws_ping_ms",
    "ws_launch_p50_ms",
    "ws_launches_per_s_64",
    "ws_launches_per_s_256",
    "ws_stream_tps_1",
    "ws_stream_tps_16",
    "ws_stream_tps_512",
    "idle_sessions_10000_mb",
    "serve_tps_1",
    "serve_tps_8",
    "serve_tps_16",
)
# Key → the aim: an upper bound (<=) or a lower bound (>=).
AIMS = {
    "ws_launch_p50_ms": ("<=", 0.3),
    "ws_launches_per_s_64": (">=", 6000),
    "ws_launches_per_s_256": (">=", 6000),
    "serve_tps_1": (">=", 228),
    "serve_tps_16": (">=", 1130),
}
ROUNDS = 5  # on the default model
EMPTY, SESSION = "bench-empty@0.1.0", "session@0.1.0"


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[int, int]]:
    """Starts a server with the programs installed. Gives its port and its process id."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "PIE_HOME": home}
        for name, manifest in GUESTS.items():
            component = ROOT / "build" / "guests" / f"{name}.wasm"
            subprocess.run(
                [PIE, "inferlet", "add", component, "-m", manifest],
                env=env,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        server = subprocess.Popen(
            [PIE, "serve", "--port", "0", *arguments],
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            port = re.search(r":(\d+)\s*$", server.stdout.readline())
            assert port, "the server did not start"
            yield int(port[1]), server.pid
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


def bench(port: int, mode: str, **options: object) -> dict[str, float]:
    words = [str(word) for key, value in options.items() for word in (f"--{key}", value)]
    done = subprocess.run(
        [BENCH, mode, "--port", str(port), *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


def dummy() -> dict[str, float]:
    found: dict[str, float] = {}
    with serving("--dummy") as (port, pid):
        bench(port, "launch", program=EMPTY, count=200)  # warm
        found["ws_ping_ms"] = bench(port, "ping", count=5000)["p50_ms"]
        found["ws_launch_p50_ms"] = bench(port, "launch", program=EMPTY, count=3000)["p50_ms"]
        for clients in (64, 256):
            rate = bench(port, "rate", program=EMPTY, clients=clients, count=20_000)
            found[f"ws_launches_per_s_{clients}"] = rate["per_s"]
        for clients, tokens in ((1, 5000), (16, 2000), (512, 100)):
            words = json.dumps({"do": "generate", "n": tokens})
            stream = bench(port, "stream", program=SESSION, clients=clients, input=words)
            found[f"ws_stream_tps_{clients}"] = stream["tps"]
        found["idle_sessions_10000_mb"] = bench(port, "idle", clients=10_000, pid=pid)["mb"]
    return found


def real() -> dict[str, float]:
    """The figures are medians of several rounds, because the speed of a machine varies."""
    found: dict[str, list[float]] = collections.defaultdict(list)
    words = json.dumps({"prompt": "Tell me about the sea.", "max_tokens": 128})
    program = "text-completion@0.1.0"
    with serving() as (port, _):
        bench(port, "stream", program=program, input=words)  # warm
        for clients in (1, 8, 16) * ROUNDS:
            # Each client asks four times in a row: answers differ in length, and clients stay busy.
            stream = bench(port, "stream", program=program, clients=clients, input=words, repeat=4)
            found[f"serve_tps_{clients}"].append(stream["tps"])
    return {key: statistics.median(values) for key, values in found.items()}


def measure() -> dict[str, float]:
    """The figures of KEYS, in that order."""
    found = {**dummy(), **real()}
    return {key: found[key] for key in KEYS}
