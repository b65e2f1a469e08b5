"""The examples of the guides on constraints and speculation, in all languages, on the dummy."""

from __future__ import annotations

import json
from pathlib import Path

import configuration
import pytest

ROOT = Path(__file__).resolve().parents[2]

LANGUAGES = ("rust", "python", "typescript", "cpp")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_extracted_order_fits_its_type(run, guest, language: str, seed: int):
    # The dummy model likes spaces, of which JSON may have any number: all tokens are alike here.
    arguments = ("--text", "Two pies, please.", "--temperature", "1000", "--seed", str(seed))
    done = run("run", "--dummy", *guest(f"extract-{language}"), "--", *arguments)
    assert done.returncode == 0, done.stderr
    order = json.loads(done.stdout)
    assert order.keys() == {"pies", "size", "warm"}
    assert isinstance(order["pies"], int) and isinstance(order["warm"], bool)
    assert order["size"] in ("small", "large")


def test_a_document_that_is_cut_off_is_an_error(run, guest):
    arguments = ("--text", "Two pies.", "--max_tokens", "3")
    for language in LANGUAGES:
        done = run("run", "--dummy", *guest(f"extract-{language}"), "--", *arguments)
        assert done.returncode == 1
        assert "not complete after 3 tokens" in done.stderr


def test_a_drafter_of_your_own_changes_no_token(run, guest):
    """All languages answer the same, and the same as without drafts."""
    arguments = ("--prompt", "Repeat after me: pie pie pie pie pie", "--max_tokens", "40")
    texts = set()
    for language in LANGUAGES:
        done = run("run", "--dummy", *guest(f"lookup-{language}"), "--", *arguments)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1 and len(texts.pop()) >= 40


LARGE = '[[model]]\nname = "large"\ndraft = "small"\n'
SMALL = '[[model]]\nname = "small"\n[model.driver]\ntype = "dummy"\n'
DUMMY = '[model.driver]\ntype = "dummy"\n'


@pytest.mark.parametrize("seed", [0, 1])
def test_a_draft_model_changes_no_token(run, tmp_path, seed: int):
    """The draft model is the same as the large one, or another one whose guesses are wrong."""
    configuration.write(tmp_path, LARGE + DUMMY + SMALL + f"random_seed = {seed}\n")
    config = tmp_path / "config.toml"
    component = ROOT / "build" / "guests" / "conformance-rust.wasm"
    manifest = ROOT / "sdk" / "conformance" / "rust" / "Pie.toml"
    asked = [{"prompt": "Tell me about pie.", "seed": s, "max_tokens": 60} for s in (0, 8)]
    cases = {"cases": [{"case": "system_speculation", "input": given} for given in asked]}
    arguments = ("--path", component, "--manifest", manifest, "--input", json.dumps(cases))
    done = run("run", "--config", config, *arguments)
    assert done.returncode == 0, done.stderr
    for result in json.loads(done.stdout)["results"]:
        assert result["ok"] == {"same": True, "same_stepped": True}


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (LARGE + DUMMY, "model 'large' has draft = 'small', which names no other model"),
        (LARGE + DUMMY + SMALL.replace('"small"', '"small"\ndraft = "large"'), "cannot have a"),
        (LARGE + SMALL, "model 'small' cannot draft for 'large': their vocabularies differ"),
    ],
)
def test_a_draft_model_that_cannot_draft_is_an_error(run, guest, tmp_path, models, expected: str):
    config = tmp_path / "config.toml"
    config.write_text(models)
    done = run("run", *guest("hello-rust"), "--config", config)
    assert done.returncode != 0
    assert expected in done.stderr


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_an_expression_of_the_calculator_is_evaluated(run, guest, seed: int):
    """All languages have the model write the same expression, and find the same value."""
    arguments = ("--question", "How much?", "--temperature", "1000", "--seed", str(seed))
    expressions = set()
    for language in LANGUAGES:
        done = run("run", "--dummy", *guest(f"calculator-{language}"), "--", *arguments)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert set(answer["expression"]) <= set("0123456789.+-*/()")
        assert answer["value"] == pytest.approx(eval(answer["expression"]))
        expressions.add(answer["expression"])
    assert len(expressions) == 1


def test_an_expression_that_is_cut_off_is_an_error(run, guest):
    for language in LANGUAGES:
        arguments = ("--question", "How much?", "--max_tokens", "1")
        done = run("run", "--dummy", *guest(f"calculator-{language}"), "--", *arguments)
        assert done.returncode == 1
        assert "not complete after 1 tokens" in done.stderr


PRICES = {"apple": 4, "cherry": 6, "plum": 5}


@pytest.mark.parametrize("language", ["python", "rust"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_an_agent_calls_only_tools_that_it_has(run, guest, language: str, seed: int):
    """A model that chooses at random writes no malformed call: it answers, or has no step left."""
    arguments = ("--question", "What is it?", "--temperature", "1000", "--seed", str(seed))
    done = run("run", "--dummy", *guest(f"react-{language}"), "--", *arguments)
    if done.returncode != 0:
        assert "there is no answer after 8 steps: [" in done.stderr
        return
    answer = json.loads(done.stdout)
    steps = answer["steps"]
    assert [step["tool"] for step in steps].index("finish") == len(steps) - 1
    for step in steps:
        found = step["arguments"]
        result = {
            "price": lambda found: PRICES[found["pie"]],
            "multiply": lambda found: found["a"] * found["b"],
            "finish": lambda found: found["answer"],
        }[step["tool"]](found)
        assert str(step["result"]) == str(result)
        assert step["thought"]
    assert answer["answer"] == steps[-1]["result"]
