"""Measures the cost of letting a program drive the model, and what it gains, with `pie-tax-bench`.

A tax is an inferlet's time per token ÷ that of the bare loop. Both are measured in turn in one
process, and the median of many short turns counts.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from peers import llamacpp_server
from peers.llamacpp import Unavailable

from bakery import toolchain

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "bin" / "pie-tax-bench"
GUEST = ROOT / "build" / "guests" / "bench-guest.wasm"
MODEL = "models/smollm2-135m-instruct"  # in the cache
THREADS = 2
AGENTS = 32
# The number of agents at the peer's server. It serves one request at a time, so the time of 32
# agents is computed from that of fewer.
PEER_AGENTS = 4
# The same numbers as in tax_bench.cc and bench/guest.
PROMPT, TOOLS, THOUGHT, ANSWER = 64, 8, 12, 24

# The figures that README.md shows, in this order. build/bench.json has more.
KEYS = (
    "tax_chained_b1",
    "tax_chained_b16",
    "tax_stepped_b1",
    "tax_stepped_b16",
    "agents32_speedup",
    "agents32_ratio_llamacpp_server",
)
# Key → the aim: an upper bound (<=) or a lower bound (>=).
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
    figures |= _against_a_server(model, figures["agents32_kept_s"])
    return {key: figures.pop(key) for key in KEYS if key in figures} | figures


def _against_a_server(model: Path, ours_s: float) -> dict[str, float]:
    """The same agents, sending their prompts to llama-cpp-python's server."""
    try:
        theirs = llamacpp_server.run_agents(
            model, THREADS, PEER_AGENTS, PROMPT, TOOLS, THOUGHT, ANSWER
        )
    except (Unavailable, subprocess.CalledProcessError) as reason:
        print(f"peers: llama-cpp-python's server is not available: {reason}", flush=True)
        return {}
    wanted = PEER_AGENTS * (TOOLS + 1) * THOUGHT
    if theirs.said_tokens != wanted:
        print(
            f"peers: llama-cpp-python's server said {theirs.said_tokens} of {wanted} tokens",
            flush=True,
        )
    seconds = theirs.seconds * AGENTS / PEER_AGENTS
    return {
        "agents32_ratio_llamacpp_server": seconds / ours_s,
        "agents32_llamacpp_server_s": seconds,
    }
