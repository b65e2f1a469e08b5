"""`pie test`: what it runs, how it reports, and what it records."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUESTS = ROOT / "build" / "guests"


@pytest.fixture
def check(run: Callable, tmp_path: Path) -> Callable:
    """Runs tests, given as TOML, on an inferlet of this tree."""

    def check_guest(guest: str, tests: str, *options: str):
        path = tmp_path / "some.toml"
        path.write_text(tests)
        example, _, language = guest.rpartition("-")
        folder = ROOT / "inferlets" / example / language
        if not folder.is_dir():
            folder = ROOT / "inferlets" / guest
        component = ["--path", GUESTS / f"{guest}.wasm"]
        return run("test", folder, *component, "--tests", path, *options)

    return check_guest


ASKS = """
[[test]]
name = "it asks"
input = { prompt = "What is pie?" }
returns = "A dish."
[[test.answer]]
when = "pie"
say = "A dish."

[[test]]
name = "it fails"
input = { prompt = "What is pie?" }
returns = "A fish."
[[test.answer]]
say = "A dish."
"""


def test_reports_each_test_and_counts_them(check):
    done = check("text-completion-rust", ASKS)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[1].startswith("  ok   it asks (")
    assert lines[2].startswith("  FAIL it fails (") and lines[2].endswith("some.toml:10)")
    assert lines[-1] == "1 passed, 1 failed"
    assert '  expected "A fish."' in done.stdout
    assert '  got      "A dish."' in done.stdout


def test_runs_the_tests_that_are_named(check):
    done = check("text-completion-rust", ASKS, "--only", "asks")
    assert done.returncode == 0
    assert done.stdout.endswith("1 passed, 0 failed\n")
    done = check("text-completion-rust", ASKS, "--only", "nothing")
    assert done.returncode == 1
    assert done.stderr == "error: no test has 'nothing' in its name\n"


def test_a_session_is_played_step_by_step(check):
    session = """
[[test]]
returns = ""
session = [
  { send = '{"say": "Hello"}' },
  { expect_stream = '{"delta":"H"}{"delta":"i"}' },
  { expect_matches = '"tokens":' },
]
[[test.answer]]
say = "Hi"
"""
    done = check("chat", session)
    assert done.returncode == 0, done.stdout
    done = check("chat", session.replace('"delta":"i"', '"delta":"o"'))
    assert done.returncode == 1
    assert "step 2 of the session (line 6): the stream is not as expected" in done.stdout
    done = check("chat", session.replace("  { expect_matches = '\"tokens\":' },\n", ""))
    assert "the inferlet sent one more message" in done.stdout


def test_an_inferlet_that_waits_too_long_fails(check):
    done = check("chat", "[[test]]\nsession = [{ expect = 'x' }]\ntimeout_secs = 1")
    assert done.returncode == 1
    assert "no message came within 1 s" in done.stdout


def test_errors_may_be_expected(check):
    wrong = '[[test]]\ninput = { name = 3 }\nerror = "name"'
    assert check("hello-rust", wrong).returncode == 0
    done = check("hello-rust", '[[test]]\nerror = "no"')
    assert "was expected to fail" in done.stdout
    done = check("hello-rust", "[[test]]\ninput = { name = 3 }")
    assert done.returncode == 1


def test_a_mistake_in_a_test_is_named_before_anything_runs(check):
    done = check("hello-rust", '[[test]]\nretruns = "x"')
    assert done.returncode == 1
    assert "some.toml:2: unknown key 'retruns'; the keys here are name, input" in done.stderr


def test_missing_things_are_named(run, tmp_path):
    done = run("test", tmp_path)
    assert done.returncode == 1 and "Pie.toml does not exist" in done.stderr
    (tmp_path / "Pie.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\n')
    done = run("test", tmp_path)
    assert done.returncode == 1 and "--record NAME" in done.stderr


def test_lines_are_recorded_as_messages(run, tmp_path):
    folder, component = ROOT / "inferlets" / "chat", GUESTS / "chat.wasm"
    common = ["test", folder, "--path", component, "--tests", tmp_path]
    arguments = ["--dummy", "--record", "fruit", "--", "--max-tokens", "6"]
    done = run(*common, *arguments, stdin='{"say": "Name a fruit."}\n')
    assert done.returncode == 0, done.stderr
    [test] = tomllib.loads((tmp_path / "fruit.toml").read_text())["test"]
    assert test["session"][0] == {"send": '{"say": "Name a fruit."}'}
    assert test["session"][1]["expect_stream"].startswith('{"delta":"')
    assert test["input"] == {"max_tokens": 6}
    again = run(*common, *arguments)
    assert "exists already" in again.stderr


@pytest.mark.parametrize("options", [["--dummy"], []], ids=["dummy", "real"])
def test_what_a_model_says_is_recorded(run, tmp_path, options):
    folder = ROOT / "inferlets" / "text-completion" / "rust"
    component = GUESTS / "text-completion-rust.wasm"
    common = ["test", folder, "--path", component, "--tests", tmp_path]
    arguments = ["--record", "pie", "--", "--prompt", "What is pie?", "--max-tokens", "12"]
    recorded = run(*common, *options, *arguments)
    assert recorded.returncode == 0, recorded.stderr
    [test] = tomllib.loads((tmp_path / "pie.toml").read_text())["test"]
    assert test["answer"][0]["when"] == "What is pie?"
    assert test["returns"] == test["answer"][0]["say"]
    assert ("vocabulary" in test) == (
        not options
    )  # twelve tokens of a real model are a longer text
    played = run(*common)
    assert played.returncode == 0, played.stdout
