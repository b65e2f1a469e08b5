"""Grammars, matchers and constraints; documents by schema and by type."""

import asyncio
import dataclasses
import enum
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

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
    tools,
)
from inferlet._shape import loads, read, shape_of

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


class Point(NamedTuple):
    x: int
    y: float = 0.0


UserId = NewType("UserId", int)


@pytest.mark.parametrize(
    ("kind", "schema", "document", "value"),
    [
        (set[int], {"type": "array", "items": {"type": "integer"}}, "[1,2,1]", {1, 2}),
        (frozenset, {"type": "array"}, "[1]", frozenset([1])),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}, '["a"]', ["a"]),
        (
            Mapping[str, float],
            {"type": "object", "additionalProperties": {"type": "number"}},
            '{"a": 1}',
            {"a": 1.0},
        ),
        (
            Point,
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "number"}],
                "minItems": 1,
                "maxItems": 2,
            },
            "[3]",
            Point(3),
        ),
        (UserId, {"type": "integer"}, "7", 7),
        (typing.List, {"type": "array"}, "[1]", [1]),  # noqa: UP006
        (typing.Tuple, {"type": "array"}, "[1]", (1,)),  # noqa: UP006
        (None, {}, "[1e2]", [100.0]),
    ],
)
def test_more_types_have_a_schema(kind, schema, document, value):
    shape = shape_of(kind)
    if kind is not None:
        assert json.loads(shape.schema.schema) == schema
    parsed = shape.parse(document)
    assert parsed == value and type(parsed) is type(value)


@dataclasses.dataclass
class Circle:
    size: int


@dataclasses.dataclass
class Label:
    size: str


@dataclasses.dataclass
class Box:
    item: Circle


@dataclasses.dataclass
class Tag:
    item: Label


@pytest.mark.parametrize(
    ("kind", "document", "value"),
    [
        (Circle | Label, '{"size": "big"}', Label("big")),
        (Box | Tag, '{"item": {"size": "big"}}', Tag(Label("big"))),
        (list[int] | list[Label], '[{"size": "a"}]', [Label("a")]),
        (dict[str, int] | dict[str, Label], '{"k": {"size": "a"}}', {"k": Label("a")}),
        (tuple[int, int] | tuple[int, Label], '[1, {"size": "a"}]', (1, Label("a"))),
        (Point | Label, "[1, 2]", Point(1, 2.0)),
        (Literal[1] | bool, "true", True),
        (Circle | None, "null", None),
    ],
)
def test_a_union_is_told_by_all_that_its_members_hold(kind, document, value):
    parsed = shape_of(kind).parse(document)
    assert parsed == value and type(parsed) is type(value)


def test_classes_of_one_name_have_definitions_of_their_own():
    def made(kind):
        @dataclasses.dataclass
        class Item:
            value: kind

        return Item

    one, other = made(int), made(str)
    shape = shape_of(tuple[one, other, one])
    schema = json.loads(shape.schema.schema)
    names = [item["$ref"].removeprefix("#/$defs/") for item in schema["prefixItems"]]
    assert names[0] == names[2] != names[1]
    kinds = [schema["$defs"][name]["properties"]["value"]["type"] for name in names]
    assert kinds == ["integer", "string", "integer"]


class Described:
    """Like a model of pydantic, with a definition."""

    def __init__(self, **parts):
        self.parts = parts

    @classmethod
    def model_json_schema(cls):
        definition = {"type": "object", "properties": {"again": {"$ref": "#/$defs/Circle"}}}
        return {"$ref": "#/$defs/Circle", "$defs": {"Circle": definition}}

    @classmethod
    def model_validate(cls, value):
        if not isinstance(value, dict):
            raise ValueError("no object")
        return cls(**value)

    model_validate_json = model_validate


def test_a_model_class_may_be_a_part_of_a_type():
    shape = shape_of(tuple[Circle, Described | list[int]])
    schema = json.loads(shape.schema.schema)
    assert schema["prefixItems"] == [
        {"$ref": "#/$defs/Circle"},
        {"anyOf": [{"$ref": "#/$defs/Circle2"}, {"type": "array", "items": {"type": "integer"}}]},
    ]
    again = schema["$defs"]["Circle2"]["properties"]["again"]
    assert again == {"$ref": "#/$defs/Circle2"}
    assert shape.parse('[{"size": 1}, {"again": {}}]')[1].parts == {"again": {}}
    assert shape.parse('[{"size": 1}, [2]]')[1] == [2]


def test_older_model_classes_describe_themselves():
    class Model:
        @classmethod
        def schema_json(cls):
            return '{"type": "object"}'

        @classmethod
        def parse_raw(cls, text):
            return ("parsed", text)

    shape = shape_of(Model)
    assert shape.schema.schema == '{"type": "object"}'
    assert shape.parse("{}") == ("parsed", "{}")


def _refuse(text):
    return json.loads("no JSON")


@pytest.mark.parametrize(
    ("parse", "text", "why"),
    [
        (loads, '{"a": 1', "not complete after 3 tokens"),
        (loads, "[1e999]", "the number 1e999 is greater than a float can hold"),
        (loads, "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        (_refuse, "[1]", "^Expecting value"),
    ],
)
def test_a_document_that_cannot_be_read_says_why(parse, text, why):
    with pytest.raises((PieError, ValueError), match=why):
        read(parse, text, 3)


@pytest.mark.parametrize("kind", [complex, object, dict[int, str]])
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


def test_a_tools_wrong_schema_is_an_error_and_no_lack_of_a_format(model, monkeypatch):
    def refuse(text):
        def call(*_):
            raise engine.Err(text)

        monkeypatch.setattr(tools.fallible, "create_tool_matcher", call)
        monkeypatch.setattr(tools.fallible, "create_tool_grammar", call)

    refuse(
        "model 'm' has no form of tool calls that a grammar can hold it to, or no tools are given"
    )
    assert tools.native_matcher(model, [{}]) is None
    refuse("tool 1: unknown keyword")
    for native in (tools.native_matcher, tools.native_grammar):
        with pytest.raises(PieError, match="unknown keyword"):
            native(model, [{}])
    known = Matcher(Grammar.from_regex("ab"), model.tokenizer())._raw
    monkeypatch.setattr(tools.fallible, "create_tool_matcher", lambda *_: known)
    assert tools.native_matcher(model, [{}]).forced_tokens() == [97, 98]
    monkeypatch.setattr(tools.fallible, "create_tool_grammar", lambda *_: None)
    assert tools.native_grammar(model, [{}]) is None


def test_what_is_not_awaited_says_what_is(model):
    async def main():
        with Context(model) as ctx:
            with pytest.raises(TypeError, match="collect_text"):
                await ctx.user("hi").generate(GREEDY)
            with pytest.raises(TypeError, match="async for event in stream"):
                await ctx.generate(GREEDY, decode=True)

    _async.run(main())
