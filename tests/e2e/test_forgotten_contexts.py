"""A JavaScript program that releases nothing may make more contexts than it can hold at once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELD = 65_536  # contexts that a program can hold


def test_contexts_that_nothing_refers_to_are_released():
    table = {"cases": [{"case": "forgotten", "input": {"n": HELD + 1000}}]}
    done = subprocess.run(
        [
            *(ROOT / "build/bin/pie", "run", "--dummy"),
            *("--path", ROOT / "build/guests/conformance-typescript.wasm"),
            *("--manifest", ROOT / "sdk/conformance/typescript/Pie.toml"),
            *("--input", json.dumps(table)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["results"] == [{"case": "forgotten", "ok": HELD + 1000}]
