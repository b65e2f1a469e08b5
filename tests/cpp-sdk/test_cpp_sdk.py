"""Tests what only the C++ SDK has: JSON, coroutines, drafts, errors that a context keeps. The
inferlet in this folder tests itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PIE = ROOT / "build" / "bin" / "pie"
GUEST = ROOT / "build" / "guests" / "cpp-sdk.wasm"
_LIMIT_S = 60


def run(group: str) -> subprocess.CompletedProcess[str]:
    assert PIE.is_file(), f"{PIE} is missing: run `make`"
    assert GUEST.is_file(), f"{GUEST} is missing: run `make guests`"
    command = [PIE, "run", "--dummy", "--stdout", "--path", GUEST, "--manifest", HERE / "Pie.toml"]
    return subprocess.run(
        [*command, "--", "--group", group],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("group", ["json", "tasks", "generators", "contexts"])
def test_nothing_is_wrong_with(group: str):
    done = run(group)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"faults": []}


def test_stdout_arrives_also_without_a_last_newline():
    done = run("stdout")
    assert done.stdout.startswith("one line\nand a part")


def test_an_exception_of_the_library_is_told_with_the_function_that_caused_it():
    done = run("range")
    assert done.returncode == 1
    assert "error: out_of_range: " in done.stderr, done.stderr
    frames = done.stderr.partition("wasm backtrace:")[2].splitlines()
    assert "PickFrom(" in frames[1], frames


def test_a_wait_that_nothing_can_end_is_an_error():
    done = run("deadlock")
    assert done.returncode == 1
    assert "deadlock" in done.stderr
