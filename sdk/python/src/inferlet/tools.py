"""Tools in the model's native format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wit_world.imports import calls as wit_calls
from wit_world.imports import fallible
from wit_world.imports import tool_use as wit

from . import _check
from ._event import EventType
from .errors import PieError, ask
from .grammar import Grammar, Matcher
from .model import Model, raw_of


class Event(metaclass=EventType):
    """The meaning of a batch of tokens; match on `Event.Call(name=n, args=a)` and the like."""

    @dataclass(frozen=True, slots=True)
    class Idle:
        """No tool call in this batch."""

    @dataclass(frozen=True, slots=True)
    class Start:
        """A call is being written."""

    @dataclass(frozen=True, slots=True)
    class Call:
        """A whole call; `args` is JSON text."""

        name: str
        args: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool in an earlier turn; see `Context.assistant_calls`."""

    name: str
    """The tool's name."""
    arguments: str | dict[str, Any] = ""
    """A dict, or the text of a JSON object. An empty text stands for no arguments."""
    id: str = ""
    """Tells several calls apart. It may be empty."""

    def __post_init__(self) -> None:
        _check.text("name", self.name)
        _check.text("id", self.id)
        _check.json_object("arguments", self.arguments)

    def _json(self) -> str:
        """The call as the engine's contract has it."""
        # The text of the arguments goes in as it is: parsing could change its numbers. The name
        # comes last, so that no argument replaces it.
        arguments = text(self.arguments).strip() or "{}"
        name, id_ = (json.dumps(part, ensure_ascii=False) for part in (self.name, self.id))
        return f'{{"arguments": {arguments}, "id": {id_}, "name": {name}}}'


IDLE = Event.Idle()


class Decoder:
    """Finds tool calls in a turn."""

    __slots__ = ("_raw",)

    def __init__(self, model: Model) -> None:
        self._raw = ask(fallible.create_tool_decoder, raw_of(model))

    def feed(self, tokens: list[int]) -> Event.Idle | Event.Start | Event.Call:
        """Decodes a batch. When it completes several calls, each following `feed`, also of an empty
        batch, returns the next call."""
        event = ask(self._raw.feed, _check.tokens("tokens", tokens))
        if type(event) is wit.Event_Call:
            return Event.Call(*event.value)
        # The engine answers "start" for text without a call, too.
        return Event.Start() if wit_calls.assembling(self._raw) else IDLE

    def reset(self) -> None:
        """Forgets the turn so far."""
        self._raw.reset()


def equip_prefix(model: Model, schemas: Iterable[Any]) -> list[int]:
    """Tokens that tell the model which tools it has. A schema is JSON text or a dict."""
    return ask(wit.equip, raw_of(model), texts(schemas))


def answer_prefix(model: Model, name: str, value: Any) -> list[int]:
    """Tokens that give a tool's answer back; what is not a string is JSON-encoded."""
    return wit.answer(raw_of(model), _check.text("name", name), text(value))


_NO_FORM = "has no form of tool calls that a grammar can hold"  # in the engine's error


def native_grammar(model: Model, schemas: Iterable[Any]) -> Grammar | None:
    """The grammar of the model's own call format, if it has one. A wrong schema is a PieError."""
    raw = ask(fallible.create_tool_grammar, raw_of(model), texts(schemas))
    return None if raw is None else Grammar(raw)


def native_matcher(model: Model, schemas: Iterable[Any]) -> Matcher | None:
    """A matcher over the model's own call format, or None: `GrammarConstraint(matcher)`. A wrong
    schema is a PieError."""
    try:
        raw = ask(fallible.create_tool_matcher, raw_of(model), texts(schemas))
    except PieError as error:
        if _NO_FORM in str(error):
            return None
        raise
    return Matcher._of(raw)


def texts(schemas: Iterable[Any]) -> list[str]:
    """The JSON texts of schemas; a text stays as it is."""
    if isinstance(schemas, (str, dict)):  # its letters or keys would each be taken for a schema
        raise TypeError("schemas must be a list of JSON schemas, not a single one: [schema]")
    return [
        _check.schema("each of schemas", schema)
        for schema in _check.items("schemas", schemas, "JSON schemas")
    ]


def call_texts(calls: Iterable[Call]) -> list[str]:
    """The JSON texts of calls."""
    if isinstance(calls, (str, dict, Call)):
        raise TypeError("calls must be a list of tools.Call, not a single one: [call]")
    made = _check.items("calls", calls, "tools.Call")
    for call in made:
        _check.instance("each of calls", call, Call, "tools.Call makes one")
    return [call._json() for call in made]


def text(value: Any) -> str:
    """The JSON text of a value; a text stays as it is."""
    return _check.json_text("value", value)
