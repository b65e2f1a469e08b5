"""Programs as users write them from the reference documents alone. Each checks what the documents
promise, and fails if that does not hold."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIE = ROOT / "build" / "bin" / "pie"
COMMON = ["beam-search", "guidance", "prompt-lookup", "watermark", "window"]


@pytest.mark.parametrize(
    ("language", "program"),
    [
        *(("python", program) for program in COMMON),
        *(("typescript", program) for program in [*COMMON, "messages"]),
    ],
)
def test_a_users_program(language, program):
    component = ROOT / "build" / "guests" / f"e2e-programs-{language}.wasm"
    assert component.is_file(), f"{component} is missing: run `make guests`"
    done = subprocess.run(
        [PIE, "run", "--dummy", "--path", component, "--input", json.dumps({"program": program})],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
