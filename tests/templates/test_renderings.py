"""Every template of llama.cpp's collection gives the text that Jinja gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokens import fetch

from templates import families, oracle
from templates.conversations import RENDERINGS
from templates.driver import Templates

VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}
SPECIAL = re.compile(r"<\|[\w/]+\|>|<｜[^｜]+｜>|<(?:start|end)_of_turn>|\[/?[A-Z_]+\]")

# Differences from Python, and their reasons.
KNOWN = {
    "fireworks-ai-llama-3-firefunction-v2": "wants variables that nobody gives",
    "meetkai-functionary-medium-v3.1": "`safe` makes Python escape what is added to it as HTML",
}


def names() -> list[str]:
    return sorted(path.stem for path in fetch.llama_cpp_templates().glob("*.jinja"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    sources = "".join(families.jinja(name) for name in names())
    special = sorted({*SPECIAL.findall(sources), "<s>", "</s>"})
    with Templates(families.with_tokens("gpt2", special, tmp_path_factory.mktemp("all"))) as ours:
        yield ours


def test_every_template_renders_as_in_python(ours: Templates):
    compared = 0
    wrong: list[str] = []
    for name in names():
        source = families.jinja(name)
        loaded = ours.ask(template=source, variables=VARIABLES, now=oracle.SECONDS)
        if "error" in loaded:
            wrong.append(f"{name}: {loaded['error']}")
            continue
        for number, conversation in enumerate(RENDERINGS):
            expected = oracle.render(source, **conversation, **VARIABLES)
            if expected is None:
                continue  # we may be more lenient than Python
            compared += 1
            got = ours.ask(**conversation)
            if got.get("text") != expected:
                wrong.append(f"{name}: conversation {number}: {json.dumps(got)[:300]}")
    unknown = [line for line in wrong if line.split(":")[0] not in KNOWN]
    assert not unknown, "\n".join(unknown)
    assert compared > 800


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("{% if %}", "syntax error"),
        ("{{ raise_exception('never') }}", "never"),
        ("no words", "does not contain the text"),
        ("{{ messages.no.such.thing }}", "undefined"),
        (
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            "too many steps",
        ),
        ("{{ 'x' * 999999999999 }}", "too much text"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
    ],
)
def test_bad_templates_say_what_is_wrong(ours: Templates, source: str, part: str):
    answer = ours.ask(
        template="{{ messages[0].content }}" * (part != "does not contain the text") + source
    )
    assert part in answer["error"] and answer["error"].startswith("chat template")


def test_a_folder_is_not_needed(ours: Templates, tmp_path: Path):
    """A model without a template can still chat."""
    assert "error" not in ours.ask(template="", now=oracle.SECONDS)
    tokens = ours.extend([], [{"kind": "user", "text": "Hi"}, {"kind": "cue"}])
    assert (
        tokens
        == ours.ask(encode="<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")["tokens"]
    )
