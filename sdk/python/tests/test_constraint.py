"""Grammars, matchers and constraints; documents by schema and by type."""

import asyncio
import dataclasses
import enum
import json
from typing import Any, Literal, NotRequired, TypedDict

import engine
import pytest

from inferlet import (
    Context,
    Entropy,
    Grammar,
    GrammarConstraint,
    JsonSchema,
    Matcher,
    PieError,
    Regex,
    Sampler,
    _async,
    brle,
)
from inferlet._shape import shape_of

GREEDY = Sampler.argmax()


def test_a_matcher_walks_forks_and_goes_back(model):
    matcher = Matcher(Grammar.from_regex("abc|abd"), model.tokenizer())
    assert matcher.forced_tokens() == [97, 98]
    matcher.accept_tokens([97])
    other = matcher.fork()
    other.accept_tokens([98])
    assert brle.ids(other.next_token_logit_mask()) == [99, 100]
    assert brle.ids(matcher.next_token_logit_mask()) == [98]
    with pytest.raises(PieError, match="does not fit"):
        matcher.accept_tokens([98, 97])
    other.rollback(2)
    assert brle.ids(other.next_token_logit_mask()) == [97]
    with pytest.raises(PieError, match="take back"):
        other.rollback(1)
    matcher.accept_tokens([98, 99])
    assert matcher.is_terminated
    matcher.reset()
    assert not matcher.is_terminated


def generated(model, *, probed=False, **options):
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY, **options)
        if probed:
            generator.probe_each_step(0, Entropy())
        tokens = generator.collect_tokens()
        return bytes(tokens).decode(), ctx.seq_len, ctx.buffer(), generator.is_done


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_tokens": 2},
        {"logit_mask": [97, 25]},
        {"logit_mask": [0, 258]},
    ],
)
def test_chained_or_stepped_the_text_is_the_same(model, options):
    chained = generated(model, constrain=Regex("apple|apricot|plum"), **options)
    takes = engine.state.calls["take"]
    assert takes > 0
    stepped = generated(model, constrain=Regex("apple|apricot|plum"), probed=True, **options)
    assert stepped == chained and engine.state.calls["take"] == takes
    assert any(word.startswith(chained[0]) for word in ("apple", "apricot", "plum"))


def test_no_mask_enters_a_chained_program(model, monkeypatch):
    monkeypatch.setattr(engine.Matcher, "next_token_logit_mask", engine.unavailable)
    assert generated(model, constrain=Regex("plum"))[0] == "plum"


def test_matchers_beside_a_constraint_of_your_own(model):
    class NotP:
        def step(self, accepted):
            return brle.allow(set(range(258)) - {112})

    text = generated(model, constrain=[Regex("apple|plum|axe"), NotP()])[0]
    assert text == "axe"
    assert engine.state.calls["take"] == 0


def test_constraints_that_leave_nothing_are_named(model):
    class OnlyZ:
        def step(self, accepted):
            return brle.allow([122])

    with Context(model) as ctx:
        constraints = [Regex("plum"), OnlyZ()]
        generator = ctx.user("hi").generate(GREEDY, constrain=constraints, logit_mask=[97, 26])
        names = "regular expression, OnlyZ, the logit mask"
        with pytest.raises(PieError, match=f"position 0 of the text by all of: {names}"):
            generator.collect_tokens()


def test_a_subclass_that_steps_is_asked(model):
    class Counting(GrammarConstraint):
        __slots__ = ("asked",)

        def step(self, accepted):
            self.asked = [*getattr(self, "asked", []), accepted]
            return super().step(accepted)

    matcher = Matcher(Grammar.from_regex("ab"), model.tokenizer())
    counting = Counting(matcher)
    assert generated(model, constrain=counting)[0] == "ab"
    assert counting.asked == [[], [97], [98]]


def test_a_chain_that_is_left_leaves_the_matcher_where_the_text_is(model):
    async def main():
        with Context(model) as ctx:
            constraint = GrammarConstraint.from_regex("abcdefghijklmnop", model)
            ctx.user("hi").cue()
            prompt = len(ctx.buffer())
            with pytest.raises(asyncio.TimeoutError):
                run = ctx.generate(GREEDY, constrain=constraint, auto_flush=False).collect_tokens()
                await asyncio.wait_for(run, 0.0095)
            had = ctx.seq_len + len(ctx.buffer()) - prompt
            assert had == 9
            rest = ctx.generate(GREEDY, constrain=constraint, auto_flush=False).collect_tokens()
            assert bytes(await rest).decode() == "jklmnop"

    _async.run(main())


def test_collect_json_ends_with_the_document(model):
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY)
        assert generator.collect_json(schema={"const": {"a": [1, 2]}}) == {"a": [1, 2]}
        assert generator.is_done
        generator = ctx.user("hi").generate(GREEDY)
        assert generator.collect_json(schema=JsonSchema('{"const": 3}'), parse=str) == "3"
        generator = ctx.user("hi").generate(GREEDY, max_tokens=3)
        with pytest.raises(PieError, match="not complete after 3 tokens"):
            generator.collect_json(schema='{"const": "long"}')
        generator = ctx.user("hi").generate(GREEDY)

        def too_deep(text):
            return json.loads("[" * 100_000)

        with pytest.raises(PieError, match="nested too deep to be read: 3"):
            generator.collect_json(schema=JsonSchema('{"const": 3}'), parse=too_deep)


@pytest.mark.parametrize("begins", [False, True])
def test_a_document_behind_thoughts(model, begins):
    engine.state.begins_thinking = begins
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY, logit_mask=[0, 123])  # no "{": it must think
        if not begins:
            generator.think_first()
        assert generator.collect_json(schema={"const": [1]}) == [1]
        assert b"hm</think>" in bytes(generator.tokens())


def test_without_leave_nobody_thinks(model):
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY)
        assert generator.collect_json(schema={"const": [1]}) == [1]
        assert bytes(generator.tokens()) == b"[1]"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Leaf:
    name: str
    colour: Colour = Colour.RED


class Extra(TypedDict):
    note: str
    count: NotRequired[int]


@dataclasses.dataclass
class Tree:
    leaves: list[Leaf]
    pair: tuple[int, float]
    kind: Literal["oak", "elm"]
    extra: Extra
    parent: "Tree | None" = None
    tags: dict[str, bool] = dataclasses.field(default_factory=dict)
    anything: Any = None


def test_a_document_becomes_a_value_of_its_type(model):
    engine.state.document = {
        "leaves": [{"name": "a", "colour": "blue"}, {"name": "b"}],
        "pair": [1, 2],
        "kind": "elm",
        "extra": {"note": "n"},
        "parent": {"leaves": [], "pair": [0, 0], "kind": "oak", "extra": {"note": ""}},
        "tags": {"t": True},
    }
    with Context(model) as ctx:
        tree = ctx.user("hi").generate(GREEDY).collect_json(schema=Tree)
    parent = Tree([], (0, 0.0), "oak", {"note": ""})
    leaves = [Leaf("a", Colour.BLUE), Leaf("b")]
    assert tree == Tree(leaves, (1, 2.0), "elm", {"note": "n"}, parent, {"t": True})
    definitions = engine.state.schemas[0]["$defs"]
    assert definitions["Leaf"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "colour": {"enum": ["red", "blue"]}},
        "required": ["name"],
        "additionalProperties": False,
    }
    assert definitions["Extra"]["required"] == ["note"]
    parents = [{"$ref": "#/$defs/Tree"}, {"type": "null"}]
    assert definitions["Tree"]["properties"]["parent"] == {"anyOf": parents}


def test_a_model_class_describes_itself():
    class Model:
        @classmethod
        def model_json_schema(cls):
            return {"type": "object"}

        @classmethod
        def model_validate_json(cls, text):
            return ("validated", text)

    shape = shape_of(Model)
    assert json.loads(shape.schema.schema) == {"type": "object"}
    assert shape.parse("{}") == ("validated", "{}")


@pytest.mark.parametrize("kind", [set, object, dict[int, str]])
def test_a_type_without_a_schema_is_refused(kind):
    with pytest.raises(TypeError):
        shape_of(kind)


def test_a_json_schema_may_be_a_dict(model):
    assert JsonSchema({"const": 3}).schema == {"const": 3}
    with Context(model) as ctx:
        g = ctx.append([97]).generate(Sampler.argmax(), constrain=JsonSchema({"const": 3}))
        assert g.max_tokens(8).collect_text() == "3"
    constraint = GrammarConstraint.from_json_schema({"const": 4}, model)
    assert isinstance(constraint, GrammarConstraint)
    assert engine.state.schemas == [{"const": 3}, {"const": 4}]
