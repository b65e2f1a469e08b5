"""What it costs that a program drives the model, and what it gains: `pie-tax-bench`.

A tax is an inferlet's time a token ÷ that of the bare loop, by turns in one process: the median of
many short turns.
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
# That the peer's server serves, one request at a time: its time is that of the requests, so that
# of all agents is taken to be as many times longer.
PEER_AGENTS = 4
# As in tax_bench.cc and bench/guest.
PROMPT, TOOLS, THOUGHT, ANSWER = 64, 8, 12, 24

# What README.md shows, in this order; the figures behind them follow in build/bench.json.
KEYS = (
    "tax_chained_b1",
    "tax_chained_b16",
    "tax_stepped_b1",
    "tax_stepped_b16",
    "agents32_speedup",
    "agents32_ratio_llamacpp_server",
)
# Key → what we aim for: a bound from above (<=) or below (>=).
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
        print(f"peers: without llama-cpp-python's server: {reason}", flush=True)
        return {}
    wanted = PEER_AGENTS * (TOOLS + 1) * THOUGHT
    if theirs.said_tokens != wanted:
        print(f"peers: its server said {theirs.said_tokens} tokens of {wanted}", flush=True)
    seconds = theirs.seconds * AGENTS / PEER_AGENTS
    return {
        "agents32_ratio_llamacpp_server": seconds / ours_s,
        "agents32_llamacpp_server_s": seconds,
    }
