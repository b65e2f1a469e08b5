"""The inferlet of each SDK answers the same table of cases on the dummy model, with equal answers.
With PIE_CONFORMANCE_MODEL=default, `test_languages_agree` compares their answers on the default
model, as `make conformance` does. What the cases expect are values of the dummy model.

`sdk/conformance/README.md` says what the cases do. A case holds when its answer holds `expect`
(or its error text holds `error`), when the relations below hold, and when all languages answer
in the same way, number for number.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIE = ROOT / "build" / "bin" / "pie"
LANGUAGES = ("rust", "python", "typescript", "cpp")
CASES: list[dict[str, Any]] = json.loads((ROOT / "sdk/conformance/cases.json").read_text())

REAL = os.environ.get("PIE_CONFORMANCE_MODEL") == "default"

_TOLERANCE = 1.5e-4  # answers are rounded to 4 places; two roundings may differ by one unit
_RUN_LIMIT_S = 240  # the first run of a Python or JavaScript component compiles it

IDS = [f"{index:02}-{case['case']}" for index, case in enumerate(CASES)]
every_case = pytest.mark.parametrize("index", range(len(CASES)), ids=IDS)


def answers(language: str) -> list[dict[str, Any]]:
    """The answers of a language's inferlet to the whole table."""
    results, problem = _run(language)
    assert not problem, f"{language}: {problem}"
    assert [result["case"] for result in results] == [case["case"] for case in CASES]
    return results


@cache
def _run(language: str) -> tuple[list[dict[str, Any]], str]:
    """The results, or the reason why there are none. Each language runs once, even if it fails."""
    component = ROOT / "build" / "guests" / f"conformance-{language}.wasm"
    if not PIE.is_file():
        return [], f"{PIE} is missing: run `make`"
    if not component.is_file():
        return [], f"{component} is missing: run `make guests`"
    table = {"cases": [{"case": case["case"], "input": case["input"]} for case in CASES]}
    manifest = ROOT / "sdk" / "conformance" / language / "Pie.toml"
    device = [] if REAL else ["--dummy"]
    command = [PIE, "run", *device, "--path", component, "--manifest", manifest]
    try:
        done = subprocess.run(
            [*command, "--input", json.dumps(table)],
            capture_output=True,
            text=True,
            timeout=_RUN_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            return [], f"pie run failed\n{done.stderr}\n{done.stdout}"
        return json.loads(done.stdout)["results"], ""
    except subprocess.TimeoutExpired:
        return [], f"no answer within {_RUN_LIMIT_S} s"
    except (json.JSONDecodeError, KeyError, TypeError):
        return [], f"no results in what it returned\n{done.stderr}\n{done.stdout}"


@pytest.mark.skipif(REAL, reason="the values are those of the dummy model")
@pytest.mark.parametrize("language", LANGUAGES)
@every_case
def test_case_holds(language: str, index: int):
    case, answer = CASES[index], answers(language)[index]
    if "error" in case:
        assert "error" in answer, f"expected an error, got {answer}"
        assert answer["error"] and case["error"] in answer["error"]
        return
    assert "ok" in answer, f"{case['case']} failed: {answer.get('error')}"
    if "expect" in case:
        assert_holds(answer["ok"], case["expect"])
    if relation := RELATIONS.get(case["case"]):
        relation(answer["ok"], case["input"], Others(language, case["input"]))


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "rust"])
@every_case
def test_languages_agree(language: str, index: int):
    ours, theirs = answers("rust")[index], answers(language)[index]
    assert ("ok" in ours) == ("ok" in theirs), f"rust: {ours}, {language}: {theirs}"
    if "ok" in ours:
        assert_same(theirs["ok"], ours["ok"])


def assert_holds(answer: Any, expected: Any) -> None:
    """The answer equals `expected`, but its objects may have more fields."""
    if isinstance(expected, dict) and expected:
        assert isinstance(answer, dict)
        for key, value in expected.items():
            assert key in answer, f"{key} is missing in {answer}"
            assert_holds(answer[key], value)
    else:
        assert_same(answer, expected)


def assert_same(answer: Any, expected: Any) -> None:
    """Whether two answers are equal. Numbers may differ by rounding; a boolean is not a number."""
    if isinstance(expected, dict):
        assert isinstance(answer, dict) and answer.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(answer[key], value)
    elif isinstance(expected, list):
        assert isinstance(answer, list) and len(answer) == len(expected)
        for item, value in zip(answer, expected, strict=True):
            assert_same(item, value)
    elif isinstance(expected, float) and not isinstance(answer, bool):
        assert answer == pytest.approx(expected, rel=0, abs=_TOLERANCE)
    else:
        assert answer == expected and isinstance(answer, bool) == isinstance(expected, bool)


class Others:
    """The same language's answers to other cases with the same prompt and length."""

    def __init__(self, language: str, given: dict[str, Any]):
        self._language = language
        self._given = given

    def __getitem__(self, name: str) -> Any:
        shared = ("prompt", "max_tokens", "allowed")
        wanted = {key: value for key, value in self._given.items() if key in shared}
        for case, answer in zip(CASES, answers(self._language), strict=True):
            inputs = {key: value for key, value in case["input"].items() if key in shared}
            if case["case"] == name and inputs == wanted:
                assert "ok" in answer, f"{name} failed: {answer.get('error')}"
                return answer["ok"]
        raise KeyError(f"no {name} with {wanted}")


# Relations that hold on any engine, without fixed values.


def context(ok: Any, given: Any, others: Others) -> None:
    assert ok["page_size"] > 0
    assert ok["buffered"] == ok["after"] > 0
    assert ok["truncated"] == ok["after"] - 2


def forward(ok: Any, given: Any, others: Others) -> None:
    assert ok["token"] == ok["argmax"] == ok["ids"][0]
    assert len(ok["ids"]) == len(ok["probs"]) == 5
    assert ok["probs"] == sorted(ok["probs"], reverse=True)
    assert 0 < sum(ok["probs"]) <= 1 + 5 * _TOLERANCE
    assert ok["vocab"] > max(ok["ids"])
    assert ok["logprob"] == ok["logprobs"][0] and max(ok["logprobs"]) <= 0
    assert ok["entropy"] >= 0


def forward_rows(ok: Any, given: Any, others: Others) -> None:
    assert len(ok) == 3 and all(isinstance(token, int) for token in ok)


def generate_tokens(ok: Any, given: Any, others: Others) -> None:
    assert 0 < len(ok) <= given["max_tokens"]


def generate_steps(ok: Any, given: Any, others: Others) -> None:
    assert ok["tokens"] == others["generate_tokens"]
    assert ok["generated"] == len(ok["tokens"])


def generate_flushed(ok: Any, given: Any, others: Others) -> None:
    if given["max_tokens"] == 24:
        assert ok["tokens"] == others["generate_tokens"]


def generate_manual(ok: Any, given: Any, others: Others) -> None:
    assert ok == others["generate_tokens"]


def generate_constrained(ok: Any, given: Any, others: Others) -> None:
    assert set(ok["tokens"]) <= set(given["allowed"])
    assert len(ok["tokens"]) == given["max_tokens"]
    assert ok["calls"] == [[], ok["tokens"][:1], ok["tokens"][1:2]]


def generate_masked(ok: Any, given: Any, others: Others) -> None:
    assert ok == others["generate_constrained"]["tokens"]


def generate_stops(ok: Any, given: Any, others: Others) -> None:
    end, extra = 259, given["tokens"][0]  # 259 ends a turn of the dummy model
    past = ok["none"]
    assert len(past) == given["max_tokens"] and {end, extra} <= set(past)
    first_end, first_extra = past.index(end), past.index(extra)
    assert first_end != first_extra
    assert ok["own"] == past[:first_end]
    assert ok["replaced"] == past[:first_extra]
    assert ok["added"] == past[: min(first_end, first_extra)]


def generate_special(ok: Any, given: Any, others: Others) -> None:
    text = bytes(token for token in ok["tokens"] if token < 256).decode()
    assert 0 < len(text) < len(ok["tokens"]) == given["max_tokens"]
    assert ok["text"] == ok["stepped"] == text


def generate_probed(ok: Any, given: Any, others: Others) -> None:
    tokens = others["generate_tokens"]
    steps = len(tokens) + (
        len(tokens) < given["max_tokens"]
    )  # including the step that chose to stop
    assert len(ok) == steps and min(ok) >= 0


def fork(ok: Any, given: Any, others: Others) -> None:
    # The fork computed token 97, and the last generated one if that was still waiting.
    assert ok["fork_len"] - ok["parent_len"] in (1, 2)


def fork_parallel(ok: Any, given: Any, others: Others) -> None:
    assert len(ok) == given["n"] and len({tuple(tokens) for tokens in ok}) > 1


RELATIONS: dict[str, Callable[[Any, Any, Others], None]] = {
    relation.__name__: relation
    for relation in (
        context,
        forward,
        forward_rows,
        generate_tokens,
        generate_steps,
        generate_flushed,
        generate_manual,
        generate_constrained,
        generate_masked,
        generate_stops,
        generate_special,
        generate_probed,
        fork,
        fork_parallel,
    )
}
