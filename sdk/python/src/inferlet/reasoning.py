"""The model's reasoning, apart from its answer."""

from __future__ import annotations

from dataclasses import dataclass

from wit_world.imports import reasoning as wit

from . import _check
from ._event import EventType
from .errors import ask
from .model import Model, raw_of


class Event(metaclass=EventType):
    """The meaning of a batch of tokens; match on `Event.Delta(text=t)` and the like."""

    @dataclass(frozen=True, slots=True)
    class Idle:
        """No reasoning in this batch."""

    @dataclass(frozen=True, slots=True)
    class Start:
        """A reasoning block begins."""

    @dataclass(frozen=True, slots=True)
    class Delta:
        """Text of the reasoning."""

        text: str

    @dataclass(frozen=True, slots=True)
    class End:
        """The block is closed; all of its text."""

        text: str


IDLE = Event.Idle()


class Decoder:
    """Follows the reasoning blocks of a turn."""

    __slots__ = ("_raw",)

    def __init__(self, model: Model) -> None:
        self._raw = wit.create_decoder(raw_of(model))

    def feed(self, tokens: list[int]) -> Event.Idle | Event.Start | Event.Delta | Event.End:
        """Decodes a batch. An empty batch gives the text that an earlier event has held back."""
        event = ask(self._raw.feed, _check.tokens("tokens", tokens))
        if isinstance(event, wit.Event_Delta):
            return Event.Delta(event.value) if event.value else IDLE
        if isinstance(event, wit.Event_Complete):
            return Event.End(event.value)
        return Event.Start()

    def reset(self) -> None:
        """Forgets the turn so far."""
        self._raw.reset()
