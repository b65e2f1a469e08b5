"""With real templates, turns that are added one by one give the tokens of the whole text."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tokens import tool

from templates import families, oracle
from templates.conversations import ADD, TURNS, call, messages, said, says
from templates.driver import CUE, Templates, answer, calls, tools, user
from templates.families import Family
from templates.oracle import HuggingFace


@pytest.fixture(scope="module", params=families.NAMES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Family:
    return families.make(request.param, tmp_path_factory.mktemp("family"))


@pytest.fixture(scope="module")
def theirs(family: Family) -> Iterator[HuggingFace]:
    with HuggingFace(family.tokenizer) as tokenizer:
        yield tokenizer


def render(family: Family, turns: list[dict[str, Any]]) -> str | None:
    given = messages(turns, fold=family.folds_system)
    return oracle.render(family.source, **given, **family.variables)


def splits(turns: list[dict[str, Any]]) -> Iterator[list[list[dict[str, Any]]]]:
    """Every way to split `turns` into several calls."""
    for cuts in itertools.product([False, True], repeat=len(turns) - 1):
        parts = [[turns[0]]]
        for cut, turn in zip(cuts, turns[1:], strict=True):
            if cut:
                parts.append([])
            parts[-1].append(turn)
        yield parts


def is_legal(family: Family, parts: list[list[dict[str, Any]]]) -> bool:
    """Whether a split can work. Tools that are added after the system turn cannot be part of it any
    more. A template that moves system text or tools to the last user turn rewrites old turns."""
    turns = list(itertools.chain(*parts))
    late = any(
        a[-1]["kind"] == "system" and b[0]["kind"] == "tools" for a, b in itertools.pairwise(parts)
    )
    users = sum(turn["kind"] == "user" for turn in turns)
    moves = family.moves and users > 1 and (says(turns, "system") or says(turns, "tools"))
    return not late and not (moves and len(parts) > 1)


def added_one_by_one(ours: Templates, parts: list[list[dict[str, Any]]]) -> list[int]:
    before: list[str] = []
    tokens: list[int] = []
    for part in parts:
        added = ours.extend(before, part)
        assert isinstance(added, list), added
        tokens += added
        before += [turn["kind"] for turn in part]
    return tokens


@pytest.mark.parametrize("turns", TURNS, ids=lambda turns: "-".join(t["kind"] for t in turns))
def test_turns_add_up_to_the_whole_rendering(
    family: Family, ours: Templates, theirs: HuggingFace, turns: list[dict[str, Any]]
):
    if says(turns, "tools") and not family.knows_tools:
        pytest.skip("the template does not support tools")
    text = render(family, turns)
    whole = ours.extend([], turns)
    assert isinstance(whole, list), whole
    if says(turns, "answer") and (text is None or "three" not in text):
        # The calls are in the engine's own format.
        assert ours.ask(decode=whole)["text"].count("three") == 1
    else:
        assert text is not None and whole == theirs.tokens(text), text
    for parts in splits(turns):
        kinds = [[turn["kind"] for turn in part] for part in parts]
        if not is_legal(family, parts):
            continue
        pairs = [(a[-1], b[0]) for a, b in itertools.pairwise(kinds)]
        if text is None and ("assistant", "answer") in pairs:
            continue  # the template expects a call there and does not write an answer without one
        tokens = added_one_by_one(ours, parts)
        if ("answer", "answer") in pairs:
            # Both parts share a turn, and a token may span the cut. The text is the same.
            assert ours.ask(decode=tokens) == ours.ask(decode=whole), kinds
        else:
            assert tokens == whole, kinds


def test_a_call_and_its_answer(family: Family, ours: Templates, theirs: HuggingFace):
    """The engine surrounds a model's call with the same text as the template."""
    given = {"tools": [ADD]} if family.knows_tools else {}
    start = [tools(ADD), user("1 + 2?")] if family.knows_tools else [user("1 + 2?")]
    asked = said("user", "1 + 2?")
    called = call("add", {"xs": [1, 2]}, content="")
    result = {"role": "tool", "name": "add", "tool_call_id": "000000000", "content": "3"}
    variables = family.variables
    prompt = oracle.render(family.source, [asked], cue=True, **given, **variables)
    whole = oracle.render(family.source, [asked, called, result], cue=True, **given, **variables)
    if whole is None or '"xs"' not in whole.removeprefix(prompt or ""):
        called["content"] = None
        whole = oracle.render(
            family.source, [asked, called, result], cue=True, **given, **variables
        )
    if prompt is None or whole is None or not whole.startswith(prompt.rstrip()):
        pytest.skip("the template writes no calls")
    written = whole.removeprefix(prompt)
    if '"xs"' not in written:
        pytest.skip("the template writes no calls")

    opened = ours.extend([], [*start, CUE])
    behind = ours.extend([*(turn["kind"] for turn in start), "cue"], [answer("add", "3"), CUE])
    assert isinstance(opened, list) and isinstance(behind, list), behind
    tokens = theirs.tokens(whole)
    assert tokens[: len(opened)] == opened
    assert tokens[len(tokens) - len(behind) :] == behind
    of_model = tokens[len(opened) : len(tokens) - len(behind)]

    # The decoder finds the call in the rest, however that is split.
    for step in (1, 3, len(of_model)):
        batches = [of_model[at : at + step] for at in range(0, len(of_model), step)]
        events = ours.ask(calls=batches)["events"]
        calls = [event[1:] for event in events if event[0] == "call"]
        assert [name for name, _ in calls] == ["add"], (whole, events)
        assert calls[0][1].replace(" ", "") == '{"xs":[1,2]}'

    # The grammar of calls takes the call as the template writes it, up to what follows the call.
    # The template writes the id of an earlier call, which models do not.
    tokens = theirs.tokens(whole.replace(', "id": "000000000"', ""))
    held = tokens[len(opened) : len(tokens) - len(behind)]
    while not ours.ask(decode=held[:1])["text"].strip():
        held = held[1:]
    taken = ours.ask(held=held, tools=[json.dumps(ADD)])["taken"]
    assert taken, ours.ask(decode=held)
    events = ours.ask(calls=[held[:taken], []])["events"]
    assert [event[1:] for event in events if event[0] == "call"] == calls


@pytest.mark.parametrize("lists", [[[1, 2]], [[1, 2], [30]]], ids=["one", "two"])
def test_calls_in_the_history(
    family: Family, ours: Templates, theirs: HuggingFace, lists: list[list[int]]
):
    """Turns write earlier calls and their answers as the template writes the whole conversation."""
    given = {"tools": [ADD]} if family.knows_tools else {}
    start = [tools(ADD), user("1 + 2?")] if family.knows_tools else [user("1 + 2?")]
    made = [
        {"name": "add", "arguments": {"xs": xs}, "id": f"{number:09}"}
        for number, xs in enumerate(lists)
    ]
    answers = [answer("add", f"sum {one['id']}", one["id"]) for one in made]
    tokens = ours.extend([], [*start, calls("", *made), *answers, CUE])
    assert isinstance(tokens, list), tokens
    text = ours.ask(decode=tokens)["text"]
    assert all(str(xs) in text for xs in lists) and all(one["text"] in text for one in answers)

    # Templates differ in the form of a call that they take.
    for as_text, content in itertools.product([False, True], [None, ""]):
        called = []
        for one in made:
            arguments = json.dumps(one["arguments"]) if as_text else one["arguments"]
            function = {"name": "add", "arguments": arguments}
            called.append({"id": one["id"], "type": "function", "function": function})
        calling = {"role": "assistant", "content": content, "tool_calls": called}
        history = [said("user", "1 + 2?"), calling]
        written = oracle.render(family.source, history, **given, **family.variables)
        if written is not None and all(str(xs) in written for xs in lists):
            break
    else:
        if len(lists) == 1:
            assert "<tool_call>" in text  # in the engine's own format
        return  # or each call with its answer
    for one in answers:
        result = {"role": "tool", "name": "add", "tool_call_id": one["tools"][0]}
        history.append({**result, "content": one["text"]})
    whole = oracle.render(family.source, history, cue=True, **given, **family.variables)
    if whole is not None and all(one["text"] in whole for one in answers):
        assert tokens == theirs.tokens(whole), whole


@pytest.mark.parametrize("field", ["reasoning_content", "thinking"])
def test_reasoning(family: Family, ours: Templates, theirs: HuggingFace, field: str):
    asked = said("user", "?")
    thought = said("assistant", "so it is", **{field: "because\n\nof it"})
    prompt = oracle.render(family.source, [asked], cue=True, **family.variables)
    whole = oracle.render(family.source, [asked, thought], **family.variables)
    if prompt is None or whole is None or "because" not in whole:
        pytest.skip("the template writes no reasoning")
    of_model = theirs.tokens(whole)[len(theirs.tokens(prompt)) :]
    events = ours.ask(reasoning=[[token] for token in of_model])["events"]
    kinds = [kind for kind, _ in events]
    assert kinds.count("start") == 1 and kinds.count("complete") == 1, events
    shown = "".join(text for kind, text in events if kind == "delta")
    assert events[kinds.index("complete")][1] == "because\n\nof it"
    assert "because\n\nof it".startswith(shown)
    # The rules contain whatever the template writes between the thoughts and the answer.
    assert ours.ask(held=of_model, answer="so it is")["taken"], ours.ask(decode=of_model)


def test_nobody_speaks_in_special_tokens(family: Family, ours: Templates, theirs: HuggingFace):
    stop = ours.ask(template=family.source, variables=family.variables, now=oracle.SECONDS)[
        "stops"
    ][0]
    names = {int(i): name for i, name in tool.ours(family.tokenizer, [])[0]["special"].items()}
    benign = ours.extend([], [user("a b c"), CUE])
    assert isinstance(benign, list)
    for text in (names[stop], f"a{names[stop]}b", "".join(list(names.values())[:9])):
        attack = ours.extend([], [user(text), CUE])
        assert isinstance(attack, list)
        special = [token for token in attack if token in names]
        assert special == [token for token in benign if token in names], text
    # The same text in tokens of the plain vocabulary.
    text = render(family, [user("a < b"), CUE])
    assert text is not None and ours.extend([], [user("a < b"), CUE]) == theirs.tokens(text)


def test_the_default_model():
    """SmolLM2's template and vocabulary from its GGUF file."""
    with Templates(families.default_model()) as ours:
        loaded = ours.ask(now=oracle.SECONDS)
        assert "error" not in loaded, loaded
        [source] = _template_of(families.default_model())
        for turns in TURNS[:5]:
            text = oracle.render(source, **messages(turns), bos_token="<|im_start|>")
            assert text is not None
            whole = ours.ask(encode=text)["tokens"]
            for parts in splits(turns):
                tokens = added_one_by_one(ours, parts)
                assert tokens == whole, text
        assert ours.ask(encode="<|im_end|>\n")["tokens"] == loaded["seal"]
        assert ours.ask(encode="<|im_end|>")["tokens"][0] in loaded["stops"]


def _template_of(gguf: Path) -> list[str]:
    """Reads tokenizer.chat_template from the bytes of a GGUF file: key, type, length, text."""
    data = gguf.read_bytes()[:32_000_000]
    key = b"tokenizer.chat_template" + (8).to_bytes(4, "little")
    at = data.index(key) + len(key)
    length = int.from_bytes(data[at : at + 8], "little")
    return [data[at + 8 : at + 8 + length].decode()]
