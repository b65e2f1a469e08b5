"""Tests what only the C++ SDK has: JSON, coroutines, drafts, errors that a context keeps. The
inferlet in this folder tests itself."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PIE = ROOT / "build" / "bin" / "pie"
GUEST = ROOT / "build" / "guests" / "cpp-sdk.wasm"
_LIMIT_S = 60


def run(group: str, *words: str) -> subprocess.CompletedProcess[str]:
    assert PIE.is_file(), f"{PIE} is missing: run `make`"
    assert GUEST.is_file(), f"{GUEST} is missing: run `make guests`"
    command = [PIE, "run", "--dummy", "--stdout", "--path", GUEST, "--manifest", HERE / "Pie.toml"]
    return subprocess.run(
        [*command, "--", "--group", group, *words],
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
    assert "PickFrom(" in frames[1] and frames[1].endswith(f" at {line_of('range')}"), frames


def line_of(crash: str) -> str:
    """Returns the line of the source that ends a run in this way."""
    lines = (HERE / "main.cpp").read_text().splitlines()
    numbers = [n for n, line in enumerate(lines, 1) if line.endswith(f"// crash: {crash}")]
    assert len(numbers) == 1, crash
    return f"main.cpp:{numbers[0]}"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("abort", "the program called abort()"),
        ("optional", "optional operator* called on a disengaged value"),
        ("index", "vector[] index out of bounds"),
        ("number", "invalid_argument: stoi: no conversion"),
    ],
)
def test_what_the_library_gives_up_for_is_told_with_the_users_line(how: str, message: str):
    done = run("crash", "--how", how)
    assert done.returncode == 1
    error = done.stderr[done.stderr.rindex("error: ") :]
    head, _, frames = error.partition("wasm backtrace:")
    assert head.startswith(f"error: {message}\n"), error
    assert f"    at {line_of(how)}\n" in head, error
    assert f" at {line_of(how)}\n" in frames, error


@pytest.mark.parametrize("how", ["trap", "memory"])
def test_a_trap_is_told_with_the_users_line(how: str):
    done = run("crash", "--how", how)
    assert done.returncode == 1
    frames = done.stderr.partition("wasm backtrace:")[2].splitlines()
    assert frames[1].endswith(f" at {line_of(how)}"), done.stderr


def test_a_full_stack_is_told_with_the_function_that_filled_it():
    done = run("crash", "--how", "deep")
    assert done.returncode == 1
    file, _, first = line_of("deep").partition(":")
    places = re.findall(rf"Deeper\(.* at {re.escape(file)}:(\d+)$", done.stderr, re.MULTILINE)
    assert places and all(int(first) <= int(place) <= int(first) + 3 for place in places)


def test_a_wait_that_nothing_can_end_is_an_error():
    done = run("deadlock")
    assert done.returncode == 1
    assert "deadlock" in done.stderr
