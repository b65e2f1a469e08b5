"""Options of templates: what they change is what Jinja gives for the same variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from templates import families, oracle
from templates.conversations import messages, said
from templates.driver import CUE, Templates, assistant, system, user
from templates.families import Family
from templates.oracle import HuggingFace
from templates.test_renderings import SPECIAL, VARIABLES, names

OPTIONS: list[dict[str, Any]] = [
    {"enable_thinking": False},
    {"enable_thinking": True},
    {"thinking": True},
    {"thinking": False},
    {"reasoning_effort": "low"},
    {"reasoning_effort": "high", "enable_thinking": True},
]
TURNS = [
    [user("Hi"), CUE],
    [system("Be brief."), user("a"), assistant("b"), user("c"), CUE],
]


def test_every_template_reads_them_as_in_python(tmp_path: Path):
    """Of llama.cpp's collection. Templates that read none are in test_renderings.py."""
    conversation = {"messages": [said("system", "S"), said("user", "Hi")], "cue": True}
    changed: dict[str, int] = {}
    wrong: list[str] = []
    sources = {name: families.jinja(name) for name in names()}
    special = sorted({*SPECIAL.findall("".join(sources.values())), *VARIABLES.values()})
    with Templates(families.with_tokens("gpt2", special, tmp_path)) as ours:
        for name, source in sources.items():
            loaded = ours.ask(template=source, variables=VARIABLES, now=oracle.SECONDS)
            if "error" in loaded:
                continue
            plain = oracle.render(source, **conversation, **VARIABLES)
            for options in OPTIONS:
                expected = oracle.render(source, **conversation, **VARIABLES, **options)
                if expected is None:
                    continue
                changed[name] = changed.get(name, 0) + (expected != plain)
                got = ours.ask(**conversation, options=options)
                if got.get("text") != expected:
                    wrong.append(f"{name}: {options}: {got}")
    assert not wrong, "\n".join(wrong)
    assert sum(count > 0 for count in changed.values()) >= 4, changed


@pytest.fixture(scope="module", params=["qwen3", "gpt-oss", "deepseek-r1", "llama3.2"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    return families.make(request.param, tmp_path_factory.mktemp("family"))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_turns_are_written_with_them(family: Family, ours: Templates, options: dict[str, Any]):
    with HuggingFace(family.tokenizer) as theirs:
        for turns in TURNS:
            given = messages(turns, fold=family.folds_system)
            text = oracle.render(family.source, **given, **family.variables, **options)
            assert text is not None
            whole = ours.ask(before=[], turns=turns, options=options)
            assert whole == {"tokens": theirs.tokens(text)}
            # The same in two calls.
            first = ours.ask(before=[], turns=turns[:-1], options=options)["tokens"]
            kinds = [turn["kind"] for turn in turns[:-1]]
            cue = ours.ask(before=kinds, turns=turns[-1:], options=options)["tokens"]
            assert first + cue == whole["tokens"]


def test_a_switched_off_qwen_does_not_begin_to_think(tmp_path: Path):
    family = families.make("qwen3", tmp_path)
    with Templates(family.tokenizer) as ours:
        ours.ask(template=family.source, variables=family.variables, now=oracle.SECONDS)
        off = {"enable_thinking": False}
        cue = ours.ask(before=["user"], turns=[CUE], options=off)["tokens"]
        assert ours.ask(decode=cue)["text"].endswith("assistant\n<think>\n\n</think>\n\n")
        refused = ours.ask(before=["user"], turns=[CUE], options={"messages": True})
        assert "a variable that the engine sets itself" in refused["error"]


def test_the_decoder_of_thoughts_knows_how_the_cue_ends(tmp_path: Path):
    """DeepSeek-V3.1's cue opens the thoughts, or closes them."""
    source = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: "
        "{% if thinking is defined and thinking %}<think>{% else %}</think>{% endif %}{% endif %}"
    )
    with Templates(families.with_tokens("gpt2", ["<think>", "</think>"], tmp_path)) as ours:
        assert "error" not in ours.ask(template=source, now=oracle.SECONDS)
        tokens = [[token] for token in ours.ask(encode="Why?")["tokens"]]

        def begins(options: dict[str, Any]) -> bool:
            events = ours.ask(reasoning=tokens, options=options)["events"]
            return events[0] == ["start", None]

        assert begins({"thinking": True})
        assert not begins({"thinking": False}) and not begins({})
