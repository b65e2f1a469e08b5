#!/usr/bin/env python3
"""Runs engine and server for long under cancellation, overload, kills and crowds of clients.

    bench/reliability.py [launches] [cancels] [overload] [kills] [clients]
                         [--minutes M] [--launches N] [--kills N] [--clients N] [--short]

Writes build/soak.json, one flat object, and prints it. Without parts, all of them run, in at most
15 minutes on two idle cores. `--minutes` is the time of launches and of the overload each;
`--short` is a minute for all, to see that it works. The exit code is 1 if a figure is not what it
must be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import reliability_clients
import reliability_kills

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "soak.json"
PARTS = ("launches", "cancels", "overload", "kills", "clients")

# Key → the only correct value.
EXACT = {
    "soak_leaked": 0,
    "soak_overload_failures": 0,
    "soak_kill_lost": 0,
    "soak_clients_errors": 0,
}
FAIREST = 0.9  # fairness between two users within 10 %


def soak(part: str, *arguments: str) -> dict[str, float]:
    """One part of pie-soak."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            ROOT / "build/bin/pie-soak",
            part,
            "--guest",
            ROOT / "build/guests/bench-soak.wasm",
            "--compiler",
            ROOT / "build/bin/pie",
            "--folder",
            folder,
            *arguments,
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"pie-soak {part} failed")
        return json.loads(done.stdout)


def measure(options: argparse.Namespace) -> dict[str, float]:
    seconds = str(options.minutes * 60)
    many = ["--launches", str(options.launches)] if options.launches else ["--seconds", seconds]
    measures = {
        "launches": lambda: soak("launches", *many),
        "cancels": lambda: soak("cancels"),
        "overload": lambda: soak("overload", "--seconds", seconds),
        "kills": lambda: asyncio.run(reliability_kills.measure(options.kills)),
        "clients": lambda: asyncio.run(reliability_clients.measure(options.clients)),
    }
    figures: dict[str, float] = {}
    for part in PARTS:
        if part in options.parts:
            print(f"{part} …", file=sys.stderr, flush=True)
            figures |= measures[part]()
    return figures


def problems(figures: dict[str, float]) -> list[str]:
    found = [
        f"{key} is {figures[key]}, not {value}"
        for key, value in EXACT.items()
        if figures.get(key, value) != value
    ]
    if figures.get("soak_fair_share_ratio", 1) < FAIREST:
        found.append(f"soak_fair_share_ratio is below {FAIREST}")
    if figures.get("soak_cancel_missing"):
        found.append(f"no inferlet calls {', '.join(figures['soak_cancel_missing'])}")
    return found


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--launches", type=int, default=0)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args(words)
    options.parts = options.parts or PARTS
    if options.short:
        options.minutes, options.kills, options.clients = 0.2, 6, 300
    return options


def main() -> int:
    options = parse()
    figures = measure(options)
    kept = json.loads(OUT.read_text()) if OUT.exists() else {}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(kept | figures, indent=2) + "\n")
    print(json.dumps(figures, indent=2))
    found = problems(figures)
    for problem in found:
        print(f"bench/reliability.py: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
