"""The Python SDK in a real component on the dummy model: asyncio, the older API, errors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIE = ROOT / "build" / "bin" / "pie"


def run(guest: str, given: dict[str, Any], *flags: str) -> subprocess.CompletedProcess[str]:
    component = ROOT / "build" / "guests" / f"e2e-{guest}.wasm"
    assert component.is_file(), f"{component} is missing: run `make guests`"
    manifest = ROOT / "tests" / "e2e" / guest / "Pie.toml"
    command = [PIE, "run", "--dummy", "--path", component, "--manifest", manifest, *flags]
    return subprocess.run(
        [*command, "--input", json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def answer(name: str) -> Any:
    done = run("python-sdk", {"do": name})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("structured", [["cancelled", "told to fail"], 40, 42]),
        ("timeouts", True),
        ("producer_consumer", [0, 1, 2, 3, 4, 5]),
        ("many_at_once", [300, True]),
        ("speculation", [True, True, True, True]),
        ("conversation", True),
        ("blocking", [True, True, True, ["beam-0", [32, 1, 2, 3]], ["first"]]),
        ("parallel_calls", [["a", "b"], ["Hi"]]),
        ("late_imports", [1, "1/3", 7]),
    ],
)
def test_answers(name, expected):
    assert answer(name) == expected


def test_a_context_runs_one_pass_at_a_time():
    assert "fork()" in run("python-sdk", {"do": "two_passes_on_one_context"}).stdout


def test_the_snapshot_does_not_freeze_randomness():
    assert answer("randomness") != answer("randomness")


def test_tasks_left_behind_are_cancelled_and_clean_up():
    done = run("python-sdk", {"do": "leftovers"}, "--stdout")
    assert "cleaned up" in done.stdout and "left True" in done.stdout


def test_both_streams_arrive():
    done = run("python-sdk", {"do": "prints"}, "--stdout")
    assert "to stdout\n" in done.stdout and "to stderr\n" in done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "no key"),
        ("exits", "gave up"),
        ("not_json", "object has no JSON form"),
        ("deadlock", "deadlock"),
        ("recurses", "recursion"),
        ("nothing_of_the_kind", "KeyError: 'nothing_of_the_kind'"),
    ],
)
def test_failures_say_what_was_wrong(name, message):
    done = run("python-sdk", {"do": name})
    assert done.returncode == 1
    assert message in done.stderr


def test_errors_show_the_programs_own_lines():
    stderr = run("python-sdk", {"do": "fails"}).stderr
    source = (ROOT / "tests/e2e/python-sdk/main.py").read_text().splitlines()
    code = 'raise ValueError("no key") from error'
    line = source.index(f"        {code}") + 1
    error = stderr[stderr.index("error: ") :]
    assert error.startswith(f"error: no key\n    at fails (main.py:{line}): {code}\n")
    assert "caused by KeyError: 'key'" in error
    assert "_entry.py" not in stderr
    assert stderr.count("no key") == 2, "once as the message, once in the line of code"


def test_a_script_without_main():
    done = run("python-script", {"word": "given"}, "--stdout")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True queued [] given")
