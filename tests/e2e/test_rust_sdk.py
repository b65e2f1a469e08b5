"""Promises of the Rust SDK alone. Each check is one run of the inferlet in `rust-sdk/`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import configuration
import pytest

ROOT = Path(__file__).resolve().parents[2]
PIE = ROOT / "build" / "bin" / "pie"
COMPONENT = ROOT / "build" / "guests" / "e2e-rust-sdk.wasm"


def run(check: str) -> subprocess.CompletedProcess[str]:
    assert PIE.is_file(), f"{PIE} is missing: run `make`"
    assert COMPONENT.is_file(), f"{COMPONENT} is missing: run `make guests`"
    manifest = Path(__file__).parent / "rust-sdk" / "Pie.toml"
    command = [PIE, "run", "--dummy", "--path", COMPONENT, "--manifest", manifest]
    return subprocess.run(
        [*command, "--input", json.dumps({"check": check})],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def answer(check: str) -> Any:
    done = run(check)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("accept_overrides", {"generated": 40, "length": 40, "same_cache": True, "last": 110}),
        ("constraints_together", [99, 100, 101]),
        ("second_turn", {"same": True, "same_length": True}),
        ("no_tokens", [[], 0]),
        ("raw_pass", {"slots": 0, "length": 2, "again_fails": True}),
        ("timeout", ["no answer within 5ms", 7]),
        ("cancelled_pull", [True, "kept"]),
        ("cancelled_step", {"tokens": 5, "grew": True}),
        ("many_waits", {"count": 50, "none_early": True, "at_once": True}),
        ("busy_neighbour", True),
        ("spawned_tasks", [["slept", "one"], [3, 70], True]),
        ("flattened_json", [True, True]),
        ("wrong_tools", [True, True, True, True, True]),
        ("described_tool", True),
        ("boxed_schema", ["abab", True]),
        (
            "two_drafters",
            ["speculator and system_speculation exclude each other: choose one"] * 2 + [2],
        ),
        ("other_reactor", {"tokens": 3, "spawned": "woken"}),  # the guest depends on wstd 0.6
    ],
)
def test_answers(check: str, expected: Any):
    assert answer(check) == expected


def test_a_task_of_wstd_runs_on_after_main():
    done = run("outlives_main")
    assert done.returncode == 0, done.stderr
    assert "3" in done.stderr.split()


def test_accept_cuts_at_stop_tokens_and_ends():
    ok = answer("accept_cuts")
    assert ok["kept"] == [[[97, 98, 99], [], True], [[100], [], True]]
    assert (ok["ended"], ok["done"], ok["more"]) == (True, True, [])


def test_speculation_changes_the_number_of_passes_and_nothing_else():
    right, wrong, *mixed = answer("speculation")
    for run_of in (right, wrong, *mixed):
        assert run_of["same_text"] and run_of["same_context"], run_of
    assert right["steps"] <= 12 and not right["rolled_back"]
    assert wrong["steps"] == 70 and wrong["rolled_back"]
    assert all(right["steps"] < run_of["steps"] < 70 for run_of in mixed)


def test_a_failed_pass_leaves_the_context_as_it_was():
    ok = answer("failed_pass")
    assert "4294967295" in ok["flushed"]
    assert "row 5" in ok["row"]
    assert ok["generated"] and ok["same_length"]
    assert ok["buffered"] == ok["still_buffered"] == 2


def test_misuse_says_what_to_do():
    ok = answer("scored_tokens_last")
    assert "last" in ok["order"]
    assert "2 tokens, 1 positions" in ok["positions"]
    assert ok["length"] == 0
    assert "empty input" in answer("nothing_to_continue")
    assert answer("launch_unknown")
    assert answer("json")


def test_pages_commit_when_full_and_only_the_rest_rolls_back():
    ok = answer("pages")
    page = configuration.page_tokens()
    assert ok["counts"] == list(divmod(2 * page + 3, page))
    assert "cannot truncate 1000 tokens: the context holds" in ok["too_many"]
    assert (ok["length_in_pages"], ok["released"]) == (2, 0)


def test_bids_and_idleness_disturb_nothing():
    assert answer("bids") == {"suspended": True, "grew": 1}


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("stuck", "every task waits"),
        ("panics", "this inferlet panics"),
        ("nonsense", "there is no check nonsense"),
    ],
)
def test_failures_are_told(check: str, says: str):
    done = run(check)
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stdout == ""
